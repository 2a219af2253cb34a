"""What becomes of one pass-through request, from when it is read to the last byte of its answer."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from typing import Self

from starlette.requests import ClientDisconnect

from agentserve.core.errors import AgentServeError
from agentserve.core.leaving import ClientLeft
from agentserve.router.metrics import Metrics


class Passage:
    """Told at each step; counts the outcome once, where its block ends."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics
        self._since = time.perf_counter()
        self._outcome = self._answered = "internal"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, _: object, error: BaseException | None, *__: object) -> None:
        if isinstance(error, AgentServeError):
            self._outcome = error.code
        elif isinstance(error, ClientDisconnect | ClientLeft | asyncio.CancelledError):
            self._outcome = "left"
        self._metrics.pass_requests.labels(self._outcome).inc()

    def begun(self, status: int) -> None:
        """The first bytes of the worker's answer are here."""
        self._metrics.pass_first_byte.observe(time.perf_counter() - self._since)
        self._outcome = "left"  # unless all of it is sent
        self._answered = "ok" if status < 400 else "refused" if status < 500 else "failed"

    async def all_of(self, chunks: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        """The same, until its end."""
        async for chunk in chunks:
            yield chunk
        self.sent()

    def sent(self) -> None:
        """All of the answer was."""
        if self._outcome == "left":
            self._outcome = self._answered

    def broke_off(self, error: AgentServeError) -> None:
        """The client was told so, in the stream itself."""
        self._outcome = error.code
