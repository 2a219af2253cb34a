"""What the routes share: the services, and how errors are documented."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Depends, Query, Request

from agentserve.core.errors import by_code
from agentserve.router.errors import ErrorBody
from agentserve.router.services import Services


def _services(request: Request) -> Services:
    return request.app.state.services


def _tenant(request: Request) -> str:
    return getattr(request.state, "tenant", "")


Parts = Annotated[Services, Depends(_services)]
TenantId = Annotated[str, Depends(_tenant)]
"""Who asks; "" without API keys."""
Cursor = Annotated[
    int, Query(ge=0, le=2**63 - 1, description="Cursor: what comes behind it is listed.")
]


def documented(*codes: str) -> dict[int | str, dict[str, Any]]:
    """OpenAPI responses for the errors of these codes, with an example each, by status."""
    known = by_code()
    responses: dict[int | str, dict[str, Any]] = {}
    for code in dict.fromkeys((*codes, "invalid_request", "body_too_large", "internal")):
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
        if cls.status == 503:
            response["headers"] = {
                "Retry-After": {"schema": {"type": "integer"}, "description": "Seconds."}
            }
    return responses
