"""When a worker whose health is fine but whose requests fail is left alone. Pure: times come in.

    closed ── FAILURES in a row ──► open ── its pause is over ──► half open ── a success ──► closed
                                      ▲                               │
                                      └── a failure, a longer pause ──┘

A failure is a lost connection, no answer, or a 5xx. What a worker refuses (4xx) says nothing about
it: bad requests of one client must not take a worker from the others.
"""

from __future__ import annotations

from dataclasses import dataclass

FAILURES = 5
FIRST_PAUSE_S = 5.0
LONGEST_PAUSE_S = 60.0


@dataclass
class Circuit:
    """Of one worker; times are of a monotonic clock, in seconds."""

    _failures: int = 0
    """In a row."""
    _pause_s: float = 0.0
    """Of the last opening; 0 while closed."""
    _until: float = 0.0

    def succeeded(self) -> None:
        self._failures, self._pause_s, self._until = 0, 0.0, 0.0

    def failed(self, now: float) -> None:
        self._failures += 1
        half_open = self._pause_s > 0 and now >= self._until
        if half_open:
            self._open(now, min(2 * self._pause_s, LONGEST_PAUSE_S))
        elif self._failures >= FAILURES and self._pause_s == 0:
            self._open(now, FIRST_PAUSE_S)

    def rests(self, now: float) -> str:
        """Why the worker gets no requests now; empty when it does."""
        if now >= self._until:
            return ""
        return (
            f"{self._failures} requests in a row failed; asked again in {self._until - now:.0f} s"
        )

    def _open(self, now: float, pause_s: float) -> None:
        self._pause_s, self._until = pause_s, now + pause_s
