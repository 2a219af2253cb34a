"""SGLang's own API through the router: the routes. What is done is in router.passthrough."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

from fastapi import APIRouter, Header, Request, Response
from fastapi.routing import APIRoute
from starlette.routing import BaseRoute, Match
from starlette.types import Receive, Scope, Send

from agentserve.router.api.deps import Parts, TimeoutS, admin_only, documented, timeout_of
from agentserve.router.passthrough.forward import forward

_ROUTES = (
    ("POST", "/generate", "SGLang's native generation."),
    ("POST", "/v1/chat/completions", "OpenAI chat completions."),
    ("GET", "/v1/models", "The served models."),
    ("GET", "/model_info", "SGLang's model information."),
    ("GET", "/get_model_info", "The same under its older name, which SGLang's frontend asks."),
    ("GET", "/server_info", "SGLang's server information."),
)
_ADMIN = ("/server_info",)
"""For admins: it tells how the operator runs the worker."""
_ANY_BODY = {
    "requestBody": {
        "required": True,
        "content": {"application/json": {"schema": {"type": "object"}}},
    }
}


async def pass_through(
    request: Request,
    parts: Parts,
    x_session_id: str | None = Header(
        None,
        description="A session's id, or any name: its requests stay on one worker. Without it, the "
        "header `X-SMG-Routing-Key`, or `prompt_cache_key` or `user` in the body.",
    ),
    timeout_s: TimeoutS = None,
) -> Response:
    """Forward a request to the worker of its session and stream the answer back."""
    return await forward(request, parts, timeout_s)


class _Route(APIRoute):
    """Finds its few parameters itself: FastAPI takes longer for that than it takes to forward. It
    has its endpoint for what the OpenAPI document says."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        return self.answer

    async def answer(self, request: Request) -> Response:
        if self.path in _ADMIN:
            await admin_only(request.state.caller)
        return await forward(request, request.app.state.services, timeout_of(request))


class Express(BaseRoute):
    """Leads to the routes of the pass-through by one look-up, where FastAPI tries all routes one
    after the other, twice, and enters exit stacks that these have no use for."""

    def __init__(self, routes: APIRouter) -> None:
        self._routes = {
            (method, route.path): route
            for route in routes.routes
            if isinstance(route, _Route)
            for method in route.methods
        }

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        if scope["type"] != "http":
            return Match.NONE, {}
        route = self._routes.get((scope["method"], scope["path"]))
        if route is None:  # another one's, or to be told that it takes no such method
            return Match.NONE, {}
        return Match.FULL, {"endpoint": route.endpoint, "route": route}

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive, send)
        response = await scope["route"].answer(request)
        await response(scope, receive, send)


_ERRORS = (
    "forbidden",
    "unknown_model",
    "session_closed",
    "session_paused",
    "no_worker",
    "worker_lost",
    "turn_timeout",
)
_LIMITS = ("over_capacity", "overloaded")
router = APIRouter(tags=["pass-through"], route_class=_Route)
for _method, _path, _summary in _ROUTES:
    router.add_api_route(
        _path,
        pass_through,
        methods=[_method],
        summary=_summary,
        name=f"{_method.lower()}{_path.replace('/', '_')}",
        response_class=Response,
        responses=documented(*_ERRORS, *(_LIMITS if _method == "POST" else ()))
        | {200: {"description": "The worker's answer, unchanged."}}
        | {"4XX": {"description": "A refusal by the worker, unchanged."}},
        openapi_extra=_ANY_BODY if _method == "POST" else None,
    )
