"""Refuses request bodies over the limit: by their Content-Length before anything is read, else by
counting while they arrive."""

from __future__ import annotations

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from agentserve.core.errors import BodyTooLarge
from agentserve.router.errors import error_response


class _Overflow(Exception):
    """Stops whoever reads the body."""


class BodyLimit:
    """ASGI middleware: at most ``max_bytes`` of request body, else 413."""

    def __init__(self, app: ASGIApp, max_bytes: int) -> None:
        self._app = app
        self._max_bytes = max_bytes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = dict(scope["headers"])
        declared = headers.get(b"content-length", b"0")
        if declared.isdigit() and int(declared) > self._max_bytes:
            await self._refuse(scope, receive, send)
            return

        received = 0
        overflow = started = False

        async def counted() -> Message:
            nonlocal received, overflow
            message = await receive()
            received += len(message.get("body", b""))
            if received > self._max_bytes:
                overflow = True
                raise _Overflow
            return message

        async def guarded(message: Message) -> None:
            nonlocal started
            # Whatever the app makes of a body that broke off (a parse error, say), the client is
            # told the real reason, below.
            if overflow and not started:
                return
            started = True
            await send(message)

        try:
            await self._app(scope, counted, guarded)
        except _Overflow:
            pass
        if overflow and not started:
            await self._refuse(scope, receive, send)

    async def _refuse(self, scope: Scope, receive: Receive, send: Send) -> None:
        error = BodyTooLarge(
            f"the request body is over the limit of {self._max_bytes} bytes",
            hint="send the screenshot as PNG, JPEG or WebP of the viewport only",
            details={"max_bytes": self._max_bytes},
        )
        response = error_response(error, scope)
        # The rest of the body is not read: the connection cannot be used again.
        response.headers["connection"] = "close"
        await response(scope, receive, send)
