"""A connection to a worker: one request after another, each answered as it arrives."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from typing import cast

import httptools

Headers = list[tuple[bytes, bytes]]
Pieces = Sequence[bytes | memoryview]
"""A body, in order."""
LONGEST_HEAD = 256 * 1024
"""Bytes of an answer's head."""
MOST_WAITING = 1024 * 1024
"""Bytes of an answer that wait for its reader, before no more is taken from the worker."""


class Lost(Exception):
    """The connection failed. ``kept``: it was one of an earlier request, and broke off before any
    answer: the server may have been closing it for being idle."""

    def __init__(self, why: str, *, kept: bool = False) -> None:
        super().__init__(why)
        self.kept = kept


class Silent(Exception):
    """Nothing came for too long."""


class Connection(asyncio.Protocol):
    """Made by ``loop.create_connection``. GET and POST only: an answer to HEAD has a body's length
    and no body."""

    def __init__(self, silence_s: float, gone: Callable[[Connection], None]) -> None:
        """``silence_s``: longest time without a byte. ``gone`` is called when it is closed."""
        self._silence_s = silence_s
        self._gone = gone
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._parser = httptools.HttpResponseParser(self)
        self._waiter: asyncio.Future[None] | None = None
        self._silence: asyncio.TimerHandle | None = None
        self._heard_at = 0.0
        self._asked = 0
        """Requests so far."""
        self._heard = 0
        """Bytes of the present answer."""
        self._status = 0
        self._headers: Headers = []
        self._head_done = False
        self._keeps = False
        """Whether the worker will read another request."""
        self._ends_with_connection = False
        self._waiting: list[bytes] = []
        self._waiting_bytes = 0
        self._paused = False
        self._whole = True
        """Whether all of the answer has arrived."""
        self._error: Exception | None = None

    # for the one who asks

    async def ask(self, head: bytes, body: Pieces) -> tuple[int, Headers]:
        """Send a request. Status and headers of its answer, whose body ``chunks`` has. Raises Lost,
        Silent."""
        assert self._transport is not None and self._whole
        self._asked += 1
        self._heard, self._heard_at = 0, self._loop.time()
        self._head_done = self._whole = False
        self._waiting, self._waiting_bytes = [], 0  # what nobody read of the last answer
        self._resume()
        self._silence = self._loop.call_later(self._silence_s, self._listen)
        self._transport.writelines([head, *body])
        while not self._head_done:
            await self._change()
        return self._status, self._headers

    async def chunks(self) -> AsyncIterator[bytes]:
        """The answer's body as it arrives. Raises Lost, Silent."""
        while True:
            if self._waiting:
                chunk = self._waiting[0] if len(self._waiting) == 1 else b"".join(self._waiting)
                self._waiting, self._waiting_bytes = [], 0
                self._resume()
                yield chunk
            elif self._whole:
                return
            else:
                await self._change()

    @property
    def free(self) -> bool:
        """Whether it can take the next request: the last one is sent and answered."""
        transport = self._transport
        assert transport is not None
        answered = self._whole and self._keeps and self._error is None
        return answered and not (transport.is_closing() or transport.get_write_buffer_size())

    def close(self) -> None:
        """At once: an answer that is not whole is given up."""
        self._stop_listening()
        if self._transport is not None:
            self._transport.abort()

    async def _change(self) -> None:
        if self._error is not None:
            raise self._error
        self._waiter = self._loop.create_future()
        try:
            await self._waiter
        finally:
            self._waiter = None

    def _changed(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def _fail(self, error: Exception) -> None:
        """An answer that is whole stays so."""
        if not self._whole and self._error is None:
            self._error = error
        self._changed()
        self.close()

    def _resume(self) -> None:
        if self._paused and self._transport is not None:
            self._paused = False
            self._heard_at = self._loop.time()
            self._transport.resume_reading()

    def _listen(self) -> None:
        """Called when nothing may have come for too long."""
        now = self._loop.time()
        if self._paused:  # it is we who do not listen
            self._heard_at = now
        left = self._heard_at + self._silence_s - now
        if left > 0:
            self._silence = self._loop.call_later(left, self._listen)
        else:
            self._fail(Silent(f"nothing came for {self._silence_s:g} s"))

    def _stop_listening(self) -> None:
        if self._silence is not None:
            self._silence.cancel()
            self._silence = None

    # for asyncio

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        if self._whole:
            self._fail(Lost("it spoke without being asked"))
            return
        self._heard += len(data)
        self._heard_at = self._loop.time()
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
            self._fail(Lost(f"it does not answer in HTTP/1.1: {error}"))
        if not self._head_done and self._heard > LONGEST_HEAD:
            self._fail(Lost(f"its answer's head has more than {LONGEST_HEAD} bytes"))
        self._changed()

    def connection_lost(self, error: Exception | None) -> None:
        self._stop_listening()
        if not self._whole and self._error is None:
            if self._head_done and self._ends_with_connection and error is None:
                self._whole = True
            else:
                why = str(error or "") or "the connection broke off"
                self._error = Lost(why, kept=self._asked > 1 and not self._heard)
            self._changed()
        self._gone(self)

    # for httptools

    def on_message_begin(self) -> None:
        if self._whole:
            raise ValueError("it has answered already")  # to the parser, which stops
        self._headers = []

    def on_header(self, name: bytes, value: bytes) -> None:
        self._headers.append((name, value))

    def on_headers_complete(self) -> None:
        self._status = self._parser.get_status_code()
        if self._status < 200:  # not the answer yet
            return
        self._head_done = True
        self._keeps = self._parser.should_keep_alive()
        names = {name.lower() for name, _ in self._headers}
        self._ends_with_connection = not names & {b"content-length", b"transfer-encoding"}

    def on_body(self, piece: bytes) -> None:
        self._waiting.append(piece)
        self._waiting_bytes += len(piece)
        if self._waiting_bytes > MOST_WAITING and not self._paused:
            assert self._transport is not None
            self._paused = True
            self._transport.pause_reading()

    def on_message_complete(self) -> None:
        if not self._head_done:
            return
        self._whole = True
        self._stop_listening()
