"""Sends requests to workers over connections that are kept."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from functools import lru_cache
from urllib.parse import urlsplit

from agentserve.core.config import KEEP_CONNECTION_S
from agentserve.core.errors import InvalidRequest
from agentserve.router.forwarding.connection import Connection, Headers, Lost, Pieces

CONNECT_TIMEOUT_S = 5.0


@dataclass(frozen=True)
class _Address:
    host: str
    port: int
    secure: bool


class Forwarded:
    """A response whose body is still to be read, by ``chunks``; and to be closed."""

    def __init__(
        self, status_code: int, headers: Headers, connection: Connection, pool: _Pool
    ) -> None:
        self.status_code = status_code
        self.headers = headers
        self._connection: Connection | None = connection
        self._pool = pool

    def header(self, name: bytes) -> bytes | None:
        """The first of that name, which is in lower case."""
        return next((value for own, value in self.headers if own.lower() == name), None)

    async def chunks(self) -> AsyncIterator[bytes]:
        """The body as it arrives, not decoded. Raises Lost and Silent."""
        assert self._connection is not None
        async for chunk in self._connection.chunks():
            yield chunk
        self.close()

    def close(self) -> None:
        """A connection whose response was not read to its end is closed, which cancels it."""
        connection, self._connection = self._connection, None
        if connection is not None:
            self._pool.give_back(connection)


class Forwarder:
    """Use it inside of one event loop, and ``close`` it."""

    def __init__(self, silence_s: float) -> None:
        """``silence_s``: longest time without a byte."""
        self._silence_s = silence_s
        self._pools: dict[_Address, _Pool] = {}

    def close(self) -> None:
        for pool in self._pools.values():
            pool.close()

    async def send(
        self, method: str, url: str, target: str, headers: Headers, body: Pieces = ()
    ) -> Forwarded:
        """The response of the server at ``url`` to GET or POST ``target``, once its head is there.
        The headers go as they are, and the body's pieces behind them.

        Raises Lost, Silent, and InvalidRequest for a header that would be two.
        """
        address, base = _parsed(url)
        head = _head(method, base + target, headers)
        pool = self._pools.get(address)
        if pool is None:
            pool = self._pools[address] = _Pool(address, self._silence_s)
        connection = await pool.take()
        try:
            status, received = await connection.ask(head, body)
        except BaseException:  # cancellation included: nobody would read its answer any more
            connection.close()
            raise
        return Forwarded(status, received, connection, pool)


@dataclass
class _Pool:
    """The connections to one server. The one that was used last is taken first."""

    address: _Address
    silence_s: float
    _idle: dict[Connection, asyncio.TimerHandle] = field(default_factory=dict)
    _all: set[Connection] = field(default_factory=set)

    async def take(self) -> Connection:
        """An idle one, or a new one. Raises Lost."""
        while self._idle:
            connection, closing = self._idle.popitem()
            closing.cancel()
            if connection.free:
                return connection
        return await self._connect()

    def give_back(self, connection: Connection) -> None:
        if not connection.free or connection not in self._all:
            connection.close()
            return
        loop = asyncio.get_running_loop()
        self._idle[connection] = loop.call_later(KEEP_CONNECTION_S, connection.close)

    def close(self) -> None:
        for connection in list(self._all):
            connection.close()

    async def _connect(self) -> Connection:
        loop, address = asyncio.get_running_loop(), self.address
        try:
            async with asyncio.timeout(CONNECT_TIMEOUT_S):
                transport, connection = await loop.create_connection(
                    lambda: Connection(self.silence_s, self._gone),
                    address.host,
                    address.port,
                    ssl=_certificates() if address.secure else None,
                )
        except TimeoutError as error:
            raise Lost(f"no connection within {CONNECT_TIMEOUT_S:g} s") from error
        except OSError as error:
            raise Lost(str(error)) from error
        if not transport.is_closing():  # else it may be gone already
            self._all.add(connection)
        return connection

    def _gone(self, connection: Connection) -> None:
        self._all.discard(connection)
        if (closing := self._idle.pop(connection, None)) is not None:
            closing.cancel()


@lru_cache(maxsize=1024)
def _parsed(url: str) -> tuple[_Address, str]:
    """Where a worker is, and what its paths begin with."""
    parts = urlsplit(url)
    secure = parts.scheme == "https"
    return (
        _Address(parts.hostname or "", parts.port or (443 if secure else 80), secure),
        parts.path.rstrip("/"),
    )


@lru_cache(maxsize=1)
def _certificates() -> ssl.SSLContext:
    return ssl.create_default_context()


def _head(method: str, target: str, headers: Headers) -> bytes:
    lines = [f"{method} {target} HTTP/1.1".encode("latin-1")]
    lines += [b"%b: %b" % header for header in headers]
    head = b"\r\n".join(lines) + b"\r\n\r\n"
    # uvicorn lets none through; what they would do is bad enough to look again
    if not head.count(b"\n") == head.count(b"\r") == len(lines) + 1:
        raise InvalidRequest("a header has a line break", hint="send it in one line")
    return head
