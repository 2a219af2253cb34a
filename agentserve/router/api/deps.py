"""What the routes share: the services, and how errors are documented."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Depends, Header, Query, Request
from pydantic import Field, TypeAdapter, ValidationError

from agentserve.core.errors import Forbidden, by_code
from agentserve.core.tenants import Caller, Role
from agentserve.router.errors import ErrorBody, invalid
from agentserve.router.services import Services


# Coroutines, though there is nothing to wait for: FastAPI calls plain functions in a thread.
async def _services(request: Request) -> Services:
    return request.app.state.services


Parts = Annotated[Services, Depends(_services)]


async def _caller(request: Request) -> Caller:
    return request.state.caller


async def _tenant(request: Request) -> str:
    return request.state.tenant


CallerOf = Annotated[Caller, Depends(_caller)]
TenantId = Annotated[str, Depends(_tenant)]


async def _own_session(session_id: str, tenant: TenantId, parts: Parts) -> str:
    return (await parts.sessions.get(session_id, tenant)).session.id


OwnSession = Annotated[str, Depends(_own_session)]
"""The id in the path, of a session that is the caller's."""


async def admin_only(caller: CallerOf) -> None:
    """Raises Forbidden."""
    if caller.role is not Role.ADMIN:
        raise Forbidden(
            f"the API key {caller.key_id} is a {caller.role.value}'s: this is for admins",
            hint="an operator makes such a key by `agentserve keys create --role admin`",
        )


Cursor = Annotated[
    int, Query(ge=0, le=2**63 - 1, description="Cursor: what comes behind it is listed.")
]
MIN_TIMEOUT_S = 1.0
"""No answer to a screenshot takes less; what is shorter is a mistake in the unit."""
TimeoutS = Annotated[
    float | None,
    Header(
        alias="X-Request-Timeout-S",
        ge=MIN_TIMEOUT_S,
        allow_inf_nan=False,
        description="Seconds that the client gives the request, waiting for a place included. What "
        "is late is answered with `turn_timeout`, and not sent to a worker or aborted there.",
    ),
]


_TIMEOUT: TypeAdapter[float] = TypeAdapter(
    Annotated[float, Field(ge=MIN_TIMEOUT_S, allow_inf_nan=False)]
)


def timeout_of(request: Request) -> float | None:
    """The same for routes that FastAPI finds no parameters for. Raises InvalidRequest."""
    text = request.headers.get("x-request-timeout-s")
    if text is None:
        return None
    try:
        return _TIMEOUT.validate_python(text)
    except ValidationError as error:
        raise invalid(error, "X-Request-Timeout-S") from error


_EVERYWHERE = ("invalid_request", "unauthorized", "body_too_large", "internal")


def documented(*codes: str) -> dict[int | str, dict[str, Any]]:
    """OpenAPI responses for the errors of these codes, with an example each, by status."""
    known = by_code()
    responses: dict[int | str, dict[str, Any]] = {}
    for code in dict.fromkeys((*codes, *_EVERYWHERE)):
        cls = known[code]
        response = responses.setdefault(
            cls.status,
            {
                "model": ErrorBody,
                "description": "",
                "content": {"application/json": {"examples": {}}},
            },
        )
        response["description"] += f"{', ' if response['description'] else ''}`{code}`"
        example = cls("what was wrong, with the value", hint="what to do next")
        response["content"]["application/json"]["examples"][code] = {
            "value": example.body(session_id="s_Zk3bRr1yQ0mJ8wqv5XnT2A", request_id="r_1")
        }
        if cls.status in (429, 503):
            response["headers"] = {
                "Retry-After": {"schema": {"type": "integer"}, "description": "Seconds."}
            }
    return responses
