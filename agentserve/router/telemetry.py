"""What is told of a turn: a span and a log record, its phases, its times."""

from __future__ import annotations

import logging
import time
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from typing import Any, Literal

from agentserve.core.logs import fields
from agentserve.core.sessions import TurnResult
from agentserve.core.tracing import Span, span, tell
from agentserve.router.metrics import Metrics

log = logging.getLogger(__name__)
Phase = Literal["decode", "plan", "program", "store"]


async def watched_turn(session_id: str, turn: Coroutine[Any, Any, TurnResult]) -> TurnResult:
    """Run a turn in a span of its own: it goes on when the request that asked for it ends."""
    with span("turn", session_id=session_id) as current:
        result = await turn
        _tell(current, result)
        log.info(
            "turn %s: %d of %d prompt tokens cached",
            "answered again" if result.replayed else "completed",
            result.usage.cached_tokens,
            result.usage.prompt_tokens,
            extra=fields(ms=round(result.timings.total_ms, 1), attempts=result.attempts),
        )
        return result


def _tell(current: Span, result: TurnResult) -> None:
    tell(
        current,
        turn=result.turn,
        epoch=result.epoch,
        worker_id=result.worker.id,
        attempts=result.attempts,
        replayed=result.replayed,
        prompt_tokens=result.usage.prompt_tokens,
        cached_tokens=result.usage.cached_tokens,
        completion_tokens=result.usage.completion_tokens,
        move=result.move,
        loss=result.loss.reason if result.loss else None,
        lost_tokens=result.loss.tokens if result.loss else None,
    )


@contextmanager
def phase(metrics: Metrics, name: Phase) -> Iterator[None]:
    """A part of a turn, for the time of the block."""
    with metrics.phase_seconds.labels(name).time(), span(name):
        yield


class Clock:
    """Milliseconds of a turn, by phase."""

    def __init__(self) -> None:
        self._start = self._lap = time.perf_counter()

    def lap(self) -> float:
        """Milliseconds since the last lap."""
        before, self._lap = self._lap, time.perf_counter()
        return (self._lap - before) * 1000

    def total(self) -> float:
        return (time.perf_counter() - self._start) * 1000
