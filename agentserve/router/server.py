"""Serving the router over HTTP."""

from __future__ import annotations

import asyncio
import signal
import socket
import ssl
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path

import uvicorn
import uvloop
from fastapi import FastAPI

from agentserve.core.config import ROUTER_PORT, RouterConfig
from agentserve.core.errors import InvalidRequest, Unavailable
from agentserve.core.http_server import LimitedHttp
from agentserve.core.logs import set_up_logs
from agentserve.core.tracing import exporting
from agentserve.router.app import create_app
from agentserve.router.hosts import HostCommand, program_host
from agentserve.router.memory import keep_freed_memory, spare_what_is_loaded
from agentserve.router.shared_port import BACKLOG, POLL_S, SharedPort, bind_shared
from agentserve.router.tasks import end

KEEP_ALIVE_S = 75
"""How long an idle connection stays open: longer than clients and proxies usually keep theirs, so
that they never send into one that is being closed."""
STOP_TIMEOUT_S = 10
"""How long open requests may go on once the router is told to stop."""
FIRST_REQUEST_S = 2.0
"""How long it then waits for the first request of a connection that came by the shared port."""


@dataclass(frozen=True)
class Tls:
    """PEM files of a certificate chain and its private key."""

    cert: Path
    key: Path

    def check(self) -> None:
        """Raises InvalidRequest when they cannot be used."""
        try:
            ssl.create_default_context(ssl.Purpose.CLIENT_AUTH).load_cert_chain(self.cert, self.key)
        except (OSError, ssl.SSLError) as error:
            raise InvalidRequest(
                f"the certificate {self.cert} with the key {self.key} cannot be used: {error}",
                hint="both are PEM files; the key is not encrypted",
            ) from error


class _Server(uvicorn.Server):
    """Says where it listens, once it does, and ends in order when it is signalled."""

    def __init__(self, config: uvicorn.Config, shared: SharedPort | None) -> None:
        super().__init__(config)
        self._shared = shared
        self._joining: asyncio.Task[None] | None = None

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        # uvicorn's own raises the signal again as soon as it has stopped: before the services
        # around it are
        signals = (signal.SIGINT, signal.SIGTERM)
        before = {number: signal.signal(number, self.handle_exit) for number in signals}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self.started and sockets:
            own = self._url(sockets[0])
            if self._shared is None:
                print(f"agentserve router listening on {own}", flush=True)
            else:
                self._joining = asyncio.create_task(self._join(self._shared, own))

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        if self._shared is not None and self._joining is not None:
            await end([self._joining])
            await self._shared.leave(self._protocol, self.config.ssl)
            await self._until_asked()
        await super().shutdown(sockets)
        if self._joining is not None and not self._joining.cancelled():
            self._joining.result()

    async def _join(self, shared: SharedPort, own: str) -> None:
        try:
            await shared.join(self._protocol, self.config.ssl)
        except Unavailable:
            self.should_exit = True
            raise
        others = self._url(shared.listener)
        print(f"agentserve router listening on {own} and, with others, on {others}", flush=True)

    async def _until_asked(self) -> None:
        """Wait for connections that were just made: with them their first requests would be lost,
        which are on their way."""
        for _ in range(round(FIRST_REQUEST_S / POLL_S)):
            if all(one.cycle is not None for one in self.server_state.connections):
                return
            await asyncio.sleep(POLL_S)

    def _protocol(self) -> asyncio.Protocol:
        return LimitedHttp(self.config, self.server_state, self.lifespan.state)

    def _url(self, listener: socket.socket) -> str:
        host, port = listener.getsockname()[:2]
        where = f"[{host}]" if ":" in host else host
        return f"{'https' if self.config.is_ssl else 'http'}://{where}:{port}"


def run_router(
    config: RouterConfig,
    host: str = "127.0.0.1",
    port: int = ROUTER_PORT,
    *,
    tls: Tls | None = None,
    host_command: HostCommand = program_host,
) -> None:
    """Serve until SIGINT or SIGTERM. Port 0 takes a free one.

    Prints ``agentserve router listening on http://HOST:PORT`` when it takes requests, behind it
    the address that it shares, if any. Raises Unavailable when it cannot listen there,
    StorageFailed when the data folder cannot be used, AgentServeError when another router uses it,
    InvalidRequest for what is no certificate, or where no port can be shared.
    """
    if tls is not None:
        tls.check()
    shared = None
    if config.shared_port is not None:
        if config.shared_port == port:
            raise InvalidRequest(
                f"{port} is the router's own port and the shared one",
                hint="choose another --port for each router: metrics and health are there",
            )
        shared = bind_shared(host, config.shared_port)
    with shared or nullcontext(), _listening(host, port) as listener:
        set_up_logs(config.log)
        with exporting("agentserve-router", config.trace):
            keep_freed_memory()
            app = create_app(config, host_command=host_command)
            uvloop.run(_serve(app, listener, shared, tls))


def _listening(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family, backlog=BACKLOG)
    except OSError as error:
        raise Unavailable(
            f"cannot listen on {host}:{port}: {error.strerror}", hint="choose another --port"
        ) from error


async def _serve(
    app: FastAPI, listener: socket.socket, shared: socket.socket | None, tls: Tls | None
) -> None:
    settings = uvicorn.Config(
        app,
        http=LimitedHttp,
        # entered here, not by uvicorn: what it raises is the caller's to see
        lifespan="off",
        access_log=False,
        log_config=None,
        timeout_keep_alive=KEEP_ALIVE_S,
        timeout_graceful_shutdown=STOP_TIMEOUT_S,
        ssl_certfile=tls and tls.cert,
        ssl_keyfile=tls and str(tls.key),
    )
    async with app.router.lifespan_context(app):
        registry = app.state.services.registry
        joins = None if shared is None else SharedPort(shared, lambda: registry.ready > 0)
        spare_what_is_loaded()
        await _Server(settings, joins).serve(sockets=[listener])
