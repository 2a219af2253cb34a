"""Work that outlives the request that asked for it, and work that nobody asked for."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from typing import Any, TypeVar

log = logging.getLogger(__name__)
T = TypeVar("T")
CLEAN_UP_S = 10.0
"""What a cancelled turn may take to leave its session idle."""
REST_S = 1.0
"""After a failure of background work."""


class Tasks:
    """Runs coroutines to their end even when the caller is cancelled (its client went away)."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[Any]] = set()

    async def run(self, work: Coroutine[Any, Any, T]) -> T:
        """The result of ``work``. Cancelling the caller does not cancel the work."""
        task = self._start(work)
        task.add_done_callback(_seen)
        await asyncio.wait({task})
        return task.result()

    def start(self, work: Coroutine[Any, Any, None]) -> None:
        """Run ``work``, for which nobody waits."""
        self._start(work).add_done_callback(_told)

    async def stop(self) -> None:
        """Cancel what is left and wait for its clean-up."""
        await end(self._tasks, CLEAN_UP_S)

    def _start(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task


def _seen(task: asyncio.Task[Any]) -> None:
    """The caller that would have raised the task's error may be gone."""
    if not task.cancelled():
        task.exception()


def _told(task: asyncio.Task[Any]) -> None:
    if not task.cancelled() and (error := task.exception()) is not None:
        log.error("background work failed", exc_info=error)


async def forever(work: Callable[[], Awaitable[None]], pause_s: float) -> None:
    """``work`` again and again, with pauses, until cancelled."""
    while True:
        try:
            await work()
        except Exception:  # the process edge: a full disk now must not end this for good
            log.exception("background work failed; it goes on")
            await asyncio.sleep(REST_S)
        await asyncio.sleep(pause_s)


async def end(tasks: Iterable[asyncio.Task[Any]], patience_s: float = REST_S) -> None:
    """Cancel tasks and wait for their clean-up. A cancellation can be lost in a library that makes
    an error of its own of it, and background work goes on after errors: so it is told again to
    those that still run after ``patience_s``."""
    pending = set(tasks)
    while pending:
        for task in pending:
            task.cancel()
        _, pending = await asyncio.wait(pending, timeout=patience_s)
