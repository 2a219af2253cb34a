"""What is told of a turn: a span and a log record, its phases."""

from __future__ import annotations

import logging
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from typing import Any, Literal

from agentserve.core import logs
from agentserve.core.sessions import TurnResult
from agentserve.core.tracing import Span, span, tell
from agentserve.router.metrics import Metrics
from agentserve.router.store import SessionRecord

log = logging.getLogger(__name__)
Phase = Literal["decode", "wait", "plan", "program", "store"]


async def watched_turn(record: SessionRecord, turn: Coroutine[Any, Any, TurnResult]) -> TurnResult:
    """Run a turn in a span of its own: it goes on when the request that asked for it ends."""
    session = record.session
    logs.tell(session_id=session.id, turn=session.turns)
    with span("turn", session_id=session.id) as current:
        result = await turn
        _tell(current, result)
        log.info(
            "turn completed: %d of %d prompt tokens cached",
            result.usage.cached_tokens,
            result.usage.prompt_tokens,
            extra=logs.fields(ms=round(result.timings.total_ms, 1), attempts=result.attempts),
        )
        return result


def _tell(current: Span, result: TurnResult) -> None:
    tell(
        current,
        turn=result.turn,
        epoch=result.epoch,
        worker_id=result.worker.id,
        attempts=result.attempts,
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
