"""What the client sends of a turn, and reads of an error."""

from __future__ import annotations

import json
from typing import Any, Literal

import httpx
from pydantic import BaseModel

from agentserve.core.errors import AgentServeError, from_body
from agentserve.core.pruning import Compression
from agentserve.core.sessions import Outcome

OnDisconnect = Literal["continue", "cancel"]


def error_of(response: httpx.Response) -> AgentServeError:
    """The error that a router answered with."""
    retry_after = response.headers.get("retry-after", "")
    try:
        body = json.loads(response.content)
        assert isinstance(body, dict) and "code" in body
    except (ValueError, AssertionError):
        return AgentServeError(
            f"{response.request.method} {response.request.url} answered "
            f"{response.status_code} without an agentserve error body",
            hint="is this URL an agentserve router?",
        )
    return from_body(body, retry_after=float(retry_after) if retry_after.isdigit() else None)


def milliseconds(text: str) -> float | None:
    """Of a stream's ``retry`` field, in seconds."""
    return int(text) / 1000 if text.isdigit() else None


def given_of(
    instruction: str | None,
    epoch: int | None,
    outcome: Outcome | None,
    compression: Compression | None,
    resend_thin: bool,
) -> dict[str, Any]:
    """What is told of a turn beside its screenshot."""
    fields = {
        "instruction": instruction,
        "epoch": epoch,
        "outcome": outcome,
        "compression": compression,
        "resend_thin": resend_thin or None,
    }
    return {name: value for name, value in fields.items() if value is not None}


def form_of(given: dict[str, Any]) -> dict[str, str]:
    """The same as fields of a form."""
    return {
        name: value.model_dump_json()
        if isinstance(value, BaseModel)
        else value
        if isinstance(value, str)
        else json.dumps(value)
        for name, value in given.items()
    }


def turn_options(timeout_s: float | None, on_disconnect: OnDisconnect) -> dict[str, Any]:
    """Of httpx, for a turn's request."""
    headers = {} if timeout_s is None else {"X-Request-Timeout-S": f"{timeout_s:g}"}
    return {"headers": headers, "params": {"on_disconnect": on_disconnect}}
