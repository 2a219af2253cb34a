"""The moment at which a turn's or request's time is over."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from agentserve.core.errors import TurnTimeout


class Deadline:
    """``seconds`` from now, or when it is ended early. Threads may share one."""

    def __init__(self, seconds: float, what: str = "turn") -> None:
        """``what``: in the error's words."""
        self.seconds = seconds
        self._what = what
        self._until = time.monotonic() + seconds
        self._ended = False
        self._at_end: set[Callable[[], object]] = set()
        self._lock = threading.Lock()

    def remaining(self) -> float:
        """Seconds left, more than 0. Raises TurnTimeout."""
        left = self._until - time.monotonic()
        if left <= 0 or self._ended:
            raise self.exceeded()
        return left

    def end(self) -> None:
        """Now, because nobody waits any more."""
        with self._lock:
            self._ended = True
            calls = list(self._at_end)
        for call in calls:
            call()

    @contextmanager
    def ending(self, call: Callable[[], object]) -> Iterator[None]:
        """``call`` is called, from any thread, when it is ended within the block or was before."""
        with self._lock:
            self._at_end.add(call)
            ended = self._ended
        try:
            if ended:
                call()
            yield
        finally:
            with self._lock:
                self._at_end.discard(call)

    def exceeded(self) -> TurnTimeout:
        if self._ended:
            return TurnTimeout(f"nobody waits for the {self._what} any more")
        return TurnTimeout(
            f"the {self._what} took longer than its {self.seconds:g} s",
            hint="ask again with the same epoch, with more time, or raise the router's turn timeout"
            if self._what == "turn"
            else "ask again with more time",
        )
