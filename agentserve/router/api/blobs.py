"""``/v1/blobs/{sha256}``: pictures sent ahead of the turns that name them."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response
from pydantic import Field

from agentserve.core.model import Wire
from agentserve.core.plans import Sha256
from agentserve.router.api.deps import Parts, TenantId, documented

router = APIRouter(prefix="/v1/blobs/{sha256}", tags=["blobs"])


class Blob(Wire):
    """A stored blob."""

    sha256: Sha256
    size: int = Field(description="Bytes.")


@router.put(
    "",
    status_code=201,
    responses=documented("quota_exceeded", "storage_failed")
    | {200: {"description": "It was stored before; the body is not read.", "model": Blob}},
    openapi_extra={
        "requestBody": {
            "required": True,
            "content": {
                "application/octet-stream": {"schema": {"type": "string", "format": "binary"}}
            },
        }
    },
)
async def put_blob(
    sha256: Sha256, request: Request, response: Response, parts: Parts, tenant: TenantId
) -> Blob:
    """Store the body under its SHA-256, which is checked."""
    if await parts.blobs.has(tenant, sha256):
        response.status_code = 200
        return Blob(sha256=sha256, size=await parts.blobs.size(tenant, sha256))
    size = await parts.blobs.receive(tenant, sha256, request.stream())
    return Blob(sha256=sha256, size=size)


@router.head("", response_class=Response, responses=documented("unknown_blob"))
async def has_blob(sha256: Sha256, parts: Parts, tenant: TenantId) -> Response:
    """200 with the blob's Content-Length when it is stored, else 404."""
    return Response(headers={"content-length": str(await parts.blobs.size(tenant, sha256))})
