"""``/v1/workers``: who serves, and how it is doing."""

from __future__ import annotations

from fastapi import APIRouter

from agentserve.core.workers import WorkerList
from agentserve.router.api.deps import Parts, documented

router = APIRouter(prefix="/v1/workers", tags=["workers"])


@router.get("", responses=documented())
async def list_workers(parts: Parts) -> WorkerList:
    """All configured workers with their state, plugin report, pins and running turns."""
    return WorkerList(workers=await parts.sessions.workers())
