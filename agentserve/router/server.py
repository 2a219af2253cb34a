"""Serving the router over HTTP."""

from __future__ import annotations

import signal
import socket
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
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
from agentserve.router.lag import hand_over_soon
from agentserve.router.memory import keep_freed_memory, spare_what_is_loaded

KEEP_ALIVE_S = 75
"""How long an idle connection stays open: longer than clients and proxies usually keep theirs, so
that they never send into one that is being closed."""
STOP_TIMEOUT_S = 10
"""How long open requests may go on once the router is told to stop."""


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
            host, port = sockets[0].getsockname()[:2]
            where = f"[{host}]" if ":" in host else host
            scheme = "https" if self.config.is_ssl else "http"
            print(f"agentserve router listening on {scheme}://{where}:{port}", flush=True)


def run_router(
    config: RouterConfig,
    host: str = "127.0.0.1",
    port: int = ROUTER_PORT,
    *,
    tls: Tls | None = None,
    host_command: HostCommand = program_host,
) -> None:
    """Serve until SIGINT or SIGTERM. Port 0 takes a free one.

    Prints ``agentserve router listening on http://HOST:PORT`` when it takes requests. Raises
    Unavailable when it cannot listen there, StorageFailed when the data folder cannot be used,
    AgentServeError when another router uses it, InvalidRequest for what is no certificate.
    """
    if tls is not None:
        tls.check()
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        listener = socket.create_server((host, port), family=family, backlog=2048)
    except OSError as error:
        raise Unavailable(
            f"cannot listen on {host}:{port}: {error.strerror}", hint="choose another --port"
        ) from error
    set_up_logs(config.log)
    with listener, exporting("agentserve-router", config.trace):
        keep_freed_memory()
        hand_over_soon()
        app = create_app(config, host_command=host_command)
        uvloop.run(_serve(app, listener, tls))


async def _serve(app: FastAPI, listener: socket.socket, tls: Tls | None) -> None:
    server = _Server(
        uvicorn.Config(
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
    )
    async with app.router.lifespan_context(app):
        spare_what_is_loaded()
        await server.serve(sockets=[listener])
