"""The report of a replay, from its steps. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import reduce

from agentserve.core.errors import AgentServeError
from agentserve.core.sessions import Session, Usage
from agentserve.replay.bundle.reader import Recording
from agentserve.replay.compare.difference import Difference
from agentserve.replay.results import (
    Mode,
    ReplayFailure,
    ReplayReport,
    Side,
    StepReport,
    Totals,
    counts_of,
)


def failure_of(
    error: AgentServeError, index: int | None, hidden: Callable[[str], str] = str
) -> ReplayFailure:
    """``hidden`` gives a text without the values of secrets."""
    return ReplayFailure(
        index=index, code=error.code, message=hidden(error.message), hint=hidden(error.hint)
    )


def report_of(
    recording: Recording,
    mode: Mode,
    steps: Sequence[StepReport],
    *,
    recorded_steps: int | None = None,
    session: Session | None = None,
    differences: Sequence[Difference] = (),
    error: ReplayFailure | None = None,
    settings: Mapping[str, str] | None = None,
    notes: Sequence[str] = (),
    seconds: float = 0.0,
) -> ReplayReport:
    """``differences`` are those of the recording as a whole; ``recorded_steps`` how many of its
    steps the mode compares, if not all."""
    meta = recording.meta
    counts = counts_of(steps)
    if recorded_steps is None:
        recorded_steps = len(recording.steps)
    whole = len(steps) == recorded_steps > 0
    nothing = []
    if steps and counts["not_compared"] == len(steps):
        nothing = ["no step's decision was compared: that says nothing"]
    return ReplayReport(
        recording=meta.id,
        name=recording.name,
        mode=mode,
        program=meta.session.program if meta.session else "",
        task=meta.task,
        complete=recording.complete,
        session_id=session and session.id,
        settings=dict(settings or {}),
        steps=list(steps),
        differences=list(differences),
        totals=Totals(
            recorded_steps=recorded_steps,
            replayed_steps=len(steps),
            **counts,
            recorded_usage=_sum(step.recorded for step in steps),
            replayed_usage=_sum(step.replayed for step in steps),
        ),
        error=error,
        notes=[*_of_the_recording(recording), *notes, *nothing],
        seconds=seconds,
        same=error is None
        and whole
        and not counts["different"]
        and not differences
        and not nothing,
    )


def unread_report(mode: Mode, name: str, error: AgentServeError) -> ReplayReport:
    """Of a recording that cannot be read."""
    totals = Totals(
        recorded_steps=0,
        replayed_steps=0,
        same=0,
        different=0,
        recorded_usage=Usage(),
        replayed_usage=Usage(),
    )
    return ReplayReport(
        recording="",
        name=name,
        mode=mode,
        program="",
        task="",
        complete=False,
        steps=[],
        totals=totals,
        error=failure_of(error, None),
        same=False,
    )


def _of_the_recording(recording: Recording) -> list[str]:
    if not recording.steps:
        return ["the recording has no steps: nothing was compared"]
    if not recording.complete:
        return [f"the recorded run was cut off after {len(recording.steps)} whole steps"]
    return []


def _sum(sides: Iterable[Side]) -> Usage:
    return reduce(Usage.plus, (side.usage for side in sides if side.usage), Usage())
