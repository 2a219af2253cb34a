"""Work that may be late or left out: one thread, and a queue that refuses rather than grows."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable

Job = Callable[[], None]


class Backlog:
    """Does jobs one after the other on a thread of its own. Thread-safe. A job must not raise."""

    def __init__(self, name: str, *, max_jobs: int, max_bytes: int) -> None:
        self._max_jobs = max_jobs
        self._max_bytes = max_bytes
        self._jobs: deque[tuple[Job, int]] = deque()
        self._num_bytes = 0
        self._closed = False
        self._changed = threading.Condition()
        # A daemon: a process that ends without close() does not wait for a cache.
        self._thread = threading.Thread(target=self._work, name=name, daemon=True)
        self._thread.start()

    def offer(self, job: Job, num_bytes: int = 0) -> bool:
        """Queue a job that holds ``num_bytes`` of memory; False when full or closed."""
        with self._changed:
            if (
                self._closed
                or len(self._jobs) >= self._max_jobs
                or self._num_bytes + num_bytes > self._max_bytes
            ):
                return False
            self._jobs.append((job, num_bytes))
            self._num_bytes += num_bytes
            self._changed.notify()
            return True

    def close(self, timeout_s: float) -> bool:
        """Take no more jobs and wait for the queued ones; False when they took longer."""
        with self._changed:
            self._closed = True
            self._changed.notify()
        self._thread.join(timeout_s)
        return not self._thread.is_alive()

    def _work(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._jobs or self._closed)
                if not self._jobs:
                    return
                job, num_bytes = self._jobs.popleft()
            job()
            with self._changed:
                self._num_bytes -= num_bytes
