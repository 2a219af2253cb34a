"""A port that several routers of one machine listen on: the kernel spreads connections over them.

    client ──► HOST:PORT ──┬──► router 1, which also has an address of its own
                           └──► router 2, likewise

A router joins once a worker is ready for what it will be given, and leaves before it ends.
"""

from __future__ import annotations

import asyncio
import socket
import sys
from collections.abc import Callable
from ssl import SSLContext

from agentserve.core.errors import InvalidRequest, Unavailable

BACKLOG = 2048
JOIN_PATIENCE_S = 10.0
"""After so long without a ready worker clients had better be told so."""
HANDSHAKE_S = 2.0
"""Longest wait for the TLS handshake of a connection that was taken when the port is left."""
POLL_S = 0.02

Protocol = Callable[[], asyncio.Protocol]


def can_share() -> bool:
    """Whether the kernel spreads connections over processes that listen on one port: Linux does,
    elsewhere the option is missing or lets one of them have all."""
    return sys.platform == "linux" and hasattr(socket, "SO_REUSEPORT")


def bind_shared(host: str, port: int) -> socket.socket:
    """Take the address; nothing comes before something listens. Raises InvalidRequest where no
    kernel would spread connections, Unavailable when somebody else has the port."""
    if not can_share():
        raise InvalidRequest(
            "this system does not spread connections over processes that share a port",
            hint="leave out --shared-port and put a proxy before the routers; Linux does it",
        )
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        listener.bind((host, port))
    except OSError as error:
        listener.close()
        raise _cannot_share(host, port, error) from error
    listener.setblocking(False)
    return listener


class SharedPort:
    """One router's part in it."""

    def __init__(self, listener: socket.socket, ready: Callable[[], bool]) -> None:
        """``listener`` comes from bind_shared; ``ready`` tells whether a worker is."""
        self.listener = listener
        self._ready = ready
        self._server: asyncio.Server | None = None

    async def join(self, protocol: Protocol, tls: SSLContext | None) -> None:
        """Listen, once it is ready or JOIN_PATIENCE_S are over. Raises Unavailable."""
        for _ in range(round(JOIN_PATIENCE_S / POLL_S)):
            if self._ready():
                break
            await asyncio.sleep(POLL_S)
        try:
            self._server = await asyncio.get_running_loop().create_server(
                protocol, sock=self.listener, ssl=tls, backlog=BACKLOG
            )
        except OSError as error:
            raise _cannot_share(*self.listener.getsockname()[:2], error) from error

    async def leave(self, protocol: Protocol, tls: SSLContext | None) -> None:
        """Take no more connections. The kernel resets those that wait when a listener is closed:
        they are taken right before."""
        if self._server is None:
            return
        waiting = _accepted(self.listener)
        self._server.close()
        self.listener.close()
        await asyncio.gather(
            *(_serve(connection, protocol, tls) for connection in waiting),
            return_exceptions=True,  # who has left, or speaks no TLS, is not missed
        )


async def _serve(connection: socket.socket, protocol: Protocol, tls: SSLContext | None) -> None:
    await asyncio.get_running_loop().connect_accepted_socket(
        protocol, connection, ssl=tls, ssl_handshake_timeout=tls and HANDSHAKE_S
    )


def _accepted(listener: socket.socket) -> list[socket.socket]:
    """The connections that wait."""
    connections: list[socket.socket] = []
    while True:
        try:
            connection, _ = listener.accept()
        except ConnectionAbortedError:
            continue
        except OSError:  # there is no other; or no file for it, and nothing to be done
            return connections
        connection.setblocking(False)
        connections.append(connection)


def _cannot_share(host: str, port: int, error: OSError) -> Unavailable:
    return Unavailable(
        f"cannot share {host}:{port}: {error.strerror}",
        hint="choose another --shared-port: this one is taken by another program, another user's, "
        "or a router without the option",
    )
