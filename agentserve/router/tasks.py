"""Work that outlives the request that asked for it, and work that nobody asked for."""

from __future__ import annotations

import asyncio
import logging
import time
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
        task = self.start(work)
        await asyncio.wait({task})
        return task.result()

    def start(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """The task of ``work``, which nobody need wait for."""
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._done)
        return task

    async def stop(self) -> None:
        """Cancel what is left and wait for its clean-up."""
        await end(self._tasks, CLEAN_UP_S)

    def _done(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled():
            task.exception()  # seen: the caller that would have raised it may be gone


async def to_its_end(work: Coroutine[Any, Any, None], patience_s: float = CLEAN_UP_S) -> None:
    """Clean up, whatever cancellations come meanwhile: they are raised behind it. Raises
    TimeoutError when it is given up after ``patience_s``."""
    task = asyncio.create_task(work)
    until = time.monotonic() + patience_s
    cancelled = False
    while not task.done() and (left := until - time.monotonic()) > 0:
        try:
            await asyncio.wait({task}, timeout=left)
        except asyncio.CancelledError:
            cancelled = True
    late = not task.done()
    if late:
        await end([task])
    if cancelled:
        raise asyncio.CancelledError
    if late:
        raise TimeoutError(f"it was given up after {patience_s:g} s")
    task.result()


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
    """Cancel tasks and wait for their clean-up. A cancellation can be lost: ``asyncio.wait_for``,
    through which redis-py sends, swallows one on Python 3.11 when what it waits for is done in the
    same moment, and background work then goes on. So it is told again to those that still run
    after ``patience_s``."""
    pending = set(tasks)
    while pending:
        for task in pending:
            task.cancel()
        _, pending = await asyncio.wait(pending, timeout=patience_s)
