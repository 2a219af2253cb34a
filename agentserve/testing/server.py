"""An ASGI application on a loopback port, inside the running event loop."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Iterator
from typing import Any, Literal, Self

import uvicorn

from agentserve.core.http_server import LimitedHttp


class _Server(uvicorn.Server):
    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Signals stay with the process that runs us."""
        yield


class LoopbackServer:
    """Serves ``app`` on 127.0.0.1. ``async with`` starts and stops it; ``kill`` is the death of a
    process: every connection breaks off, nothing is answered any more, no lifespan ends."""

    def __init__(self, app: Any, *, port: int = 0, lifespan: bool = True) -> None:
        self._app = app
        self._lifespan: Literal["on", "off"] = "on" if lifespan else "off"
        self.port = port
        self._server: _Server | None = None
        self._serving: asyncio.Task[None] | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    async def start(self) -> None:
        """Listen; a second start takes the same port again. Raises RuntimeError when the
        application does not start."""
        if self._server is not None and self._server.should_exit and self._serving is not None:
            await asyncio.wait({self._serving})  # somebody ends it at this moment
        listener = socket.create_server(("127.0.0.1", self.port))
        self.port = listener.getsockname()[1]
        self._server = server = _Server(
            uvicorn.Config(
                self._app,
                http=LimitedHttp,
                lifespan=self._lifespan,
                log_config=None,
                access_log=False,
                timeout_graceful_shutdown=2,
            )
        )
        self._serving = serving = asyncio.create_task(_serve(server, listener))
        while not server.started:
            if serving.done():
                await serving
                raise RuntimeError("the application did not start")
            await asyncio.sleep(0.005)

    async def stop(self) -> None:
        """End gracefully; nothing when it does not run."""
        server, serving = self._server, self._serving
        if server is not None and serving is not None:
            server.should_exit = True
            await serving
            if self._serving is serving:  # and not started again meanwhile
                self._server = self._serving = None

    async def kill(self) -> None:
        """End at once: open connections are reset."""
        if self._server is None:
            return
        state = self._server.server_state
        for server in self._server.servers:
            server.close()
        for connection in list(state.connections):
            connection.transport.abort()
        for task in list(state.tasks):
            task.cancel()
        self._server.force_exit = True
        await self.stop()

    def drop(self, client: tuple[str, int]) -> None:
        """Break one connection off, the one from ``client``."""
        assert self._server is not None
        for connection in list(self._server.server_state.connections):
            if connection.client == client:
                connection.transport.abort()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()


async def _serve(server: _Server, listener: socket.socket) -> None:
    with listener:
        await server.serve(sockets=[listener])
