"""How long a turn's phases take."""

from __future__ import annotations

import time


class Clock:
    """Milliseconds of a turn, by phase."""

    def __init__(self) -> None:
        self._start = self._lap = time.perf_counter()
        self.decode_ms = 0.0
        self.wait_ms = 0.0
        """For its place."""

    def lap(self) -> float:
        """Milliseconds since the last lap."""
        before, self._lap = self._lap, time.perf_counter()
        return (self._lap - before) * 1000

    def total(self) -> float:
        return (time.perf_counter() - self._start) * 1000
