"""A span for each request, below the client's when it sends one along."""

from __future__ import annotations

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from agentserve.core.logs import LONGEST_VALUE, told
from agentserve.core.tracing import HEADERS, Span, failed, parent_in, span, tell
from agentserve.router.access import METHODS, QUIET

_HEADERS = tuple(name.encode() for name in HEADERS)


class Traces:
    """ASGI middleware, the outermost: what is logged below has the trace's id. Probes and metrics
    have no spans: machines ask for them all the time."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["path"] in QUIET:
            await self._app(scope, receive, send)
            return
        carried = {
            name.decode(): value.decode("latin-1")
            for name, value in scope["headers"]
            if name in _HEADERS
        }
        method = scope["method"] if scope["method"] in METHODS else "other"
        with span(method, "server", parent=parent_in(carried)) as current:
            status = 0

            async def watched(message: Message) -> None:
                nonlocal status
                status = message.get("status", status)
                await send(message)

            try:
                await self._app(scope, receive, watched)
            finally:
                if current.is_recording():
                    route = getattr(scope.get("route"), "path", "unknown")
                    _tell_request(current, method, route, status)


def _tell_request(current: Span, method: str, route: str, status: int) -> None:
    current.update_name(f"{method} {route}")
    current.set_attribute("http.request.method", method)
    current.set_attribute("http.route", route)
    if status:
        current.set_attribute("http.response.status_code", status)
    if status >= 500:
        failed(current, str(status))
    tell(current, **{name: str(value)[:LONGEST_VALUE] for name, value in told().items()})
