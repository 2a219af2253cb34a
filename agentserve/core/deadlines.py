"""The moment at which a turn's or request's time is over."""

from __future__ import annotations

import time

from agentserve.core.errors import TurnTimeout


class Deadline:
    """``seconds`` from now. Threads may share one."""

    def __init__(self, seconds: float, what: str = "turn") -> None:
        """``what``: in the error's words."""
        self.seconds = seconds
        self._what = what
        self._end = time.monotonic() + seconds

    def remaining(self) -> float:
        """Seconds left, more than 0. Raises TurnTimeout."""
        left = self._end - time.monotonic()
        if left <= 0:
            raise self.exceeded()
        return left

    def exceeded(self) -> TurnTimeout:
        return TurnTimeout(
            f"the {self._what} took longer than its {self.seconds:g} s",
            hint="ask again with the same epoch, with more time, or raise the router's turn timeout"
            if self._what == "turn"
            else "ask again with more time",
        )
