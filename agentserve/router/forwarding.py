"""The client of the pass-through: requests go to a worker as they are, answers come as they are.

aiohttp and not httpx, which serves everything else: it takes a third of the CPU. Only this module
sees its errors.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import aiohttp
import httpx
from yarl import URL

from agentserve.core.config import KEEP_CONNECTION_S
from agentserve.core.errors import InvalidRequest

Headers = list[tuple[bytes, bytes]]
CONNECT_TIMEOUT_S = 5.0
LONGEST_HEADER = 65_536
_ADDED_BY_AIOHTTP = ("Accept", "Accept-Encoding", "Content-Type", "User-Agent")


class Lost(Exception):
    """The connection failed. ``kept``: it was one of an earlier request, and broke off before any
    answer: the server may have been closing it for being idle."""

    def __init__(self, why: str, *, kept: bool = False) -> None:
        super().__init__(why)
        self.kept = kept


class Silent(Exception):
    """Nothing came for too long."""


@dataclass(frozen=True)
class Forwarded:
    """A response whose body is still to be read, by ``chunks``."""

    status_code: int
    headers: httpx.Headers
    _answer: aiohttp.ClientResponse = field(repr=False)

    async def chunks(self) -> AsyncIterator[bytes]:
        """The body as it arrives, not decoded. Raises Lost and Silent."""
        with _named():
            async for chunk in self._answer.content.iter_any():
                yield chunk

    def close(self) -> None:
        """A connection whose response was not read to its end is closed, which cancels it."""
        self._answer.close()


class Forwarder:
    """Open it inside of the event loop, and ``close`` it."""

    def __init__(self, silence_s: float) -> None:
        """``silence_s``: longest time without a byte."""
        trace = aiohttp.TraceConfig()
        trace.on_connection_reuseconn.append(_note_kept)
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0, keepalive_timeout=KEEP_CONNECTION_S),
            timeout=aiohttp.ClientTimeout(
                total=None, sock_connect=CONNECT_TIMEOUT_S, sock_read=silence_s
            ),
            auto_decompress=False,
            cookie_jar=aiohttp.DummyCookieJar(),
            skip_auto_headers=_ADDED_BY_AIOHTTP,
            max_line_size=LONGEST_HEADER,
            max_field_size=LONGEST_HEADER,
            trace_configs=[trace],
        )

    async def close(self) -> None:
        await self._session.close()

    async def send(self, method: str, url: str, headers: Headers, body: bytes) -> Forwarded:
        """The response, once its head is there. ``url`` goes as it is, and so do the headers.

        Raises Lost, Silent, and InvalidRequest for a header that is not UTF-8: aiohttp cannot send
        it.
        """
        kept = SimpleNamespace(value=False)
        with _named(kept):
            answer = await self._session.request(
                method,
                URL(url, encoded=True),
                headers=[(name.decode("latin-1"), _text(name, value)) for name, value in headers],
                data=_Body(body) if body else None,
                allow_redirects=False,
                trace_request_ctx=kept,
            )
        return Forwarded(answer.status, httpx.Headers(list(answer.raw_headers)), answer)


class _Body(aiohttp.Payload):
    """Bytes that are there already. aiohttp's own payload for them warns of large ones."""

    def __init__(self, body: bytes) -> None:
        super().__init__(body)
        self._size = len(body)

    def decode(self, encoding: str = "utf-8", errors: str = "strict") -> str:
        return self._value.decode(encoding, errors)

    async def write(self, writer: Any) -> None:
        await writer.write(self._value)


async def _note_kept(
    session: aiohttp.ClientSession, context: Any, parameters: aiohttp.TraceConnectionReuseconnParams
) -> None:
    context.trace_request_ctx.value = True


@contextmanager
def _named(kept: SimpleNamespace | None = None) -> Iterator[None]:
    """Gives aiohttp's errors their names."""
    try:
        yield
    except TimeoutError as error:  # before OSError, which it is as well
        raise Silent(str(error)) from error
    except (aiohttp.ClientError, OSError) as error:
        broke_off = isinstance(error, (aiohttp.ClientConnectionError, OSError))
        raise Lost(
            str(error) or type(error).__name__, kept=broke_off and kept is not None and kept.value
        ) from error


def _text(name: bytes, value: bytes) -> str:
    try:
        return value.decode()
    except UnicodeDecodeError:
        raise InvalidRequest(
            f"the header {name.decode('latin-1')} is not UTF-8", hint="encode its value"
        ) from None
