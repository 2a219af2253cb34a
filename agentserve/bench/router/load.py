"""A client that costs next to nothing: prepared requests, kept connections, no parser."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Mapping, Sequence
from typing import Self, cast
from urllib.parse import urlsplit

from agentserve.core.errors import Unavailable

ANSWER_TIMEOUT_S = 30.0
_LENGTH = re.compile(rb"\r\ncontent-length:[ \t]*(\d+)", re.IGNORECASE)
_CHUNKED = re.compile(rb"\r\ntransfer-encoding:[ \t]*chunked", re.IGNORECASE)
_END = b"\r\n\r\n"


def post(
    url: str,
    path: str,
    headers: Mapping[str, str],
    body: bytes,
    content_type: str = "application/json",
) -> bytes:
    """The bytes of a request."""
    lines = [
        f"POST {path} HTTP/1.1",
        f"host: {urlsplit(url).netloc}",
        f"content-type: {content_type}",
        *(f"{name}: {value}" for name, value in headers.items()),
        f"content-length: {len(body)}",
    ]
    return "\r\n".join(lines).encode() + _END + body


def is_whole(response: bytes) -> bool:
    """Whether the bytes are a response to its end. One without a length is not understood."""
    head, end, body = response.partition(_END)
    if not end:
        return False
    if length := _LENGTH.search(head):
        return len(body) >= int(length[1])
    return bool(_CHUNKED.search(head)) and body.endswith(b"0" + _END)


class Connection(asyncio.Protocol):
    """One kept connection, which sends a request at a time."""

    def __init__(self) -> None:
        self._transport: asyncio.Transport | None = None
        self._received = b""
        self._answered: asyncio.Future[bytes] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        self._received += data
        if self._answered is not None and not self._answered.done() and is_whole(self._received):
            self._answered.set_result(self._received)

    def connection_lost(self, error: Exception | None) -> None:
        if self._answered is not None and not self._answered.done():
            self._answered.set_exception(ConnectionResetError("the connection broke off"))

    @classmethod
    async def to(cls, url: str) -> Self:
        """An open one."""
        where = urlsplit(url)
        loop = asyncio.get_running_loop()
        return (await loop.create_connection(cls, where.hostname, where.port))[1]

    async def ask(self, request: bytes) -> bytes:
        """The whole response."""
        assert self._transport is not None
        self._received = b""
        self._answered = asyncio.get_running_loop().create_future()
        self._transport.write(request)
        return await self._answered

    def close(self) -> None:
        if self._transport is not None:
            self._transport.close()


async def load(url: str, requests: Sequence[bytes], seconds: float) -> tuple[list[float], float]:
    """Ask for so long, one request after the other on a connection for each of ``requests``.

    Returns the milliseconds of each answer, and the seconds that all took. Raises Unavailable for
    an answer that is not 200.
    """
    opened = [await Connection.to(url) for _ in requests]
    times: list[float] = []
    begun = time.perf_counter()

    async def keep_asking(connection: Connection, request: bytes) -> None:
        while (start := time.perf_counter()) < begun + seconds:
            response = await connection.ask(request)
            if not response.startswith(b"HTTP/1.1 200"):
                raise Unavailable(f"{url} answered {response[:300]!r}")
            times.append((time.perf_counter() - start) * 1000)

    try:
        async with asyncio.timeout(seconds + ANSWER_TIMEOUT_S):
            await asyncio.gather(*map(keep_asking, opened, requests))
    except (TimeoutError, OSError) as error:
        raise Unavailable(f"{url} did not answer: {error or type(error).__name__}") from error
    finally:
        for connection in opened:
            connection.close()
    return times, time.perf_counter() - begun
