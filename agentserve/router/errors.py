"""Every error in the one JSON shape, whoever raised it.

``Requests`` is the outermost layer: it gives each request its id, catches what nobody expected and
counts. The handlers below it turn expected errors into responses.
"""

from __future__ import annotations

import logging
import math
import re
import time
import uuid
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, Field, ValidationError
from starlette.datastructures import MutableHeaders
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from agentserve.core.errors import (
    AgentServeError,
    InvalidRequest,
    MethodNotAllowed,
    UnknownRoute,
)
from agentserve.core.leaving import ClientLeft
from agentserve.core.logs import tell
from agentserve.router.access import METHODS, log_access
from agentserve.router.metrics import Metrics

log = logging.getLogger(__name__)
_REQUEST_ID = re.compile(r"[A-Za-z0-9._-]{1,128}")
_MAX_LISTED = 20


class ErrorBody(BaseModel):
    """What every error answers."""

    code: str = Field(examples=["stale_epoch"])
    message: str
    hint: str
    """What to do next."""
    details: dict[str, Any]
    session_id: str | None
    request_id: str | None


def error_response(error: AgentServeError, scope: Scope) -> JSONResponse:
    """The response of an error, with the ids of the request in ``scope``."""
    body = error.body(
        session_id=scope.get("path_params", {}).get("session_id"),
        request_id=scope.get("state", {}).get("request_id"),
    )
    headers = {}
    if error.retry_after is not None:
        headers["Retry-After"] = str(max(1, math.ceil(error.retry_after)))
    return JSONResponse(body, status_code=error.status, headers=headers)


def invalid(error: ValidationError | RequestValidationError, what: str) -> InvalidRequest:
    """A pydantic error as ours. The input itself is not repeated: it may be long, or secret."""
    problems = [
        {"at": ".".join(str(part) for part in one["loc"]), "problem": one["msg"]}
        for one in error.errors()[:_MAX_LISTED]
    ]
    first = problems[0]
    return InvalidRequest(
        f"{what}: {first['at']}: {first['problem']}"
        if first["at"]
        else f"{what}: {first['problem']}",
        hint="the API is described at /docs",
        details={"problems": problems},
    )


def add_error_handlers(app: FastAPI) -> None:
    """Answer expected errors in the one shape, the framework's own included."""

    async def ours(request: Request, error: AgentServeError) -> JSONResponse:
        return error_response(error, request.scope)

    async def validation(request: Request, error: RequestValidationError) -> JSONResponse:
        return error_response(invalid(error, "the request is not valid"), request.scope)

    async def http(request: Request, error: HTTPException) -> JSONResponse:
        response = error_response(_of_http(request, error), request.scope)
        response.headers.update(error.headers or {})
        return response

    app.add_exception_handler(AgentServeError, ours)
    app.add_exception_handler(RequestValidationError, validation)
    app.add_exception_handler(HTTPException, http)


def _of_http(request: Request, error: HTTPException) -> AgentServeError:
    what = f"{request.method} {request.url.path}"
    hint = "the API is described at /docs"
    if error.status_code == 404:
        return UnknownRoute(f"there is nothing at {what}", hint=hint)
    if error.status_code == 405:
        return MethodNotAllowed(f"{what}: this path does not take {request.method}", hint=hint)
    return InvalidRequest(f"{what}: {error.detail}", hint=hint)


class Requests:
    """ASGI middleware: X-Request-Id in and out, the last catch, request metrics."""

    def __init__(self, app: ASGIApp, metrics: Metrics) -> None:
        self._app = app
        self._metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request_id = _request_id(scope)
        tell(request_id=request_id)
        scope.setdefault("state", {})["request_id"] = request_id
        status = num_bytes = 0
        begun = time.perf_counter()

        async def with_id(message: Message) -> None:
            nonlocal status, num_bytes
            num_bytes += len(message.get("body", b""))
            if message["type"] == "http.response.start":
                status = message["status"]
                MutableHeaders(scope=message)["X-Request-Id"] = request_id
            await send(message)

        try:
            await self._app(scope, receive, with_id)
        except (ClientDisconnect, ClientLeft):
            log.info("the client went away")
        except Exception as error:  # the process edge: no request may take the router down
            cause = error.__cause__ if isinstance(error.__cause__, AgentServeError) else error
            if status and isinstance(cause, AgentServeError):
                # Too late for an error body; the server cuts the connection off instead.
                log.warning("the answer broke off: %s", cause)
                return
            log.exception("%s %s failed", scope["method"], scope["path"])
            if status:
                return
            unexpected = AgentServeError(
                "the router failed in a way nobody foresaw",
                hint="its log holds the reason under the request id",
            )
            await error_response(unexpected, scope)(scope, receive, with_id)
        finally:
            route = getattr(scope.get("route"), "path", "unknown")
            method = scope["method"] if scope["method"] in METHODS else "other"
            self._metrics.requests.labels(method, route, str(status)).inc()
            log_access(scope, method, route, status, time.perf_counter() - begun, num_bytes)


def _request_id(scope: Scope) -> str:
    for name, value in scope["headers"]:
        if name == b"x-request-id" and _REQUEST_ID.fullmatch(value.decode("latin-1")):
            return value.decode("latin-1")
    return f"r_{uuid.uuid4().hex}"
