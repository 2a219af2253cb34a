"""Work that outlives the request that asked for it, and work that nobody asked for."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeVar

log = logging.getLogger(__name__)
T = TypeVar("T")
REST_S = 1.0
"""After a failure of background work."""


class Tasks:
    """Runs coroutines to their end even when the caller is cancelled (its client went away)."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[Any]] = set()

    async def run(self, work: Coroutine[Any, Any, T]) -> T:
        """The result of ``work``. Cancelling the caller does not cancel the work."""
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._done)
        await asyncio.wait({task})
        return task.result()

    async def stop(self) -> None:
        """Cancel what is left and wait for its clean-up."""
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _done(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled():
            task.exception()  # seen: the caller that would have raised it may be gone


async def forever(work: Callable[[], Awaitable[None]], pause_s: float) -> None:
    """``work`` again and again, with pauses, until cancelled."""
    while True:
        try:
            await work()
        except Exception:  # the process edge: a full disk now must not end this for good
            log.exception("background work failed; it goes on")
            await asyncio.sleep(REST_S)
        await asyncio.sleep(pause_s)
