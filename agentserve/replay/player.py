"""Feeding a recording back through a router, turn by turn."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from functools import reduce

from agentserve.client import RouterClient
from agentserve.core.actions import Action
from agentserve.core.errors import AgentServeError
from agentserve.core.model import Wire
from agentserve.core.plans import Sha256
from agentserve.core.sessions import InvalidAction, Session, SessionId, TurnResult, Usage
from agentserve.replay.compare import Difference, turn_differences
from agentserve.replay.format import StepLine
from agentserve.replay.reader import Recording

log = logging.getLogger(__name__)


class Decision(Wire):
    """One side of a compared turn: what the agent decided, and what it cost."""

    action: Action | None
    """In CSS px."""
    invalid: InvalidAction | None
    text: str
    variables: dict[str, str]
    usage: Usage
    turn_ms: float


class StepReport(Wire):
    """One step, as it was and as it is now."""

    index: int
    screenshot: Sha256
    recorded: Decision
    replayed: Decision
    same: bool
    differences: list[Difference]


class ReplayFailure(Wire):
    """The router's error that ended a replay early."""

    index: int | None
    """The step that failed; None when no session could be created."""
    code: str
    message: str
    hint: str


class Totals(Wire):
    """Sums. Both usages are of the replayed steps, so that they compare."""

    recorded_steps: int
    replayed_steps: int
    same: int
    different: int
    recorded_usage: Usage
    replayed_usage: Usage


class ReplayReport(Wire):
    """What a replay found."""

    recording: str
    """Id of the recording."""
    program: str
    task: str
    complete: bool
    """False when the recorded run was cut off before it ended."""
    session_id: SessionId | None
    """The replay's own session; None when none could be created."""
    tolerance_px: float
    steps: list[StepReport]
    totals: Totals
    error: ReplayFailure | None = None
    notes: list[str]
    """What makes a difference explainable, in sentences."""
    same: bool
    """Every recorded step was replayed, at least one, and none differs."""


async def replay(
    client: RouterClient,
    recording: Recording,
    *,
    tolerance_px: float = 0.0,
    on_step: Callable[[StepReport], None] | None = None,
) -> ReplayReport:
    """Replay a recording in a session created like the recorded one, and release it.

    Open loop: the recorded screenshots, instructions and outcomes are fed whatever the model
    decides now, so that one difference does not hide what comes behind it. An error of the router
    ends the replay and is part of the report; a damaged screenshot raises RecordingError.
    """
    meta = recording.meta
    steps: list[StepReport] = []
    try:
        session = await client.create_session(
            meta.session.model_copy(update={"metadata": {"replay_of": meta.id}})
        )
    except AgentServeError as error:
        return _report(recording, None, tolerance_px, steps, _failure(error, None))
    failure = None
    try:
        epoch = session.epoch
        for step in recording.steps:
            screenshot = await asyncio.to_thread(recording.screenshot, step.screenshot)
            try:
                result = await client.turn(
                    session.id,
                    screenshot,
                    instruction=step.instruction,
                    epoch=epoch,
                    outcome=step.outcome_sent,
                )
            except AgentServeError as error:
                failure = _failure(error, step.index)
                break
            epoch = result.epoch + 1
            steps.append(_compared(step, result, tolerance_px))
            if on_step is not None:
                on_step(steps[-1])
    finally:
        await _release(client, session.id)
    return _report(recording, session, tolerance_px, steps, failure)


async def _release(client: RouterClient, session_id: str) -> None:
    try:
        await client.release(session_id)
    except AgentServeError as error:  # the session expires by itself; the report matters more
        log.warning("session %s was not released: %s", session_id, error)


def _compared(step: StepLine, result: TurnResult, tolerance_px: float) -> StepReport:
    differences = turn_differences(step.result, result, tolerance_px)
    return StepReport(
        index=step.index,
        screenshot=step.screenshot,
        recorded=_decision(step.result),
        replayed=_decision(result),
        same=not differences,
        differences=differences,
    )


def _decision(result: TurnResult) -> Decision:
    return Decision(
        action=result.action,
        invalid=result.invalid,
        text=result.text,
        variables=result.variables,
        usage=result.usage,
        turn_ms=result.timings.total_ms,
    )


def _failure(error: AgentServeError, index: int | None) -> ReplayFailure:
    return ReplayFailure(index=index, code=error.code, message=error.message, hint=error.hint)


def _report(
    recording: Recording,
    session: Session | None,
    tolerance_px: float,
    steps: list[StepReport],
    error: ReplayFailure | None,
) -> ReplayReport:
    meta = recording.meta
    different = sum(not step.same for step in steps)
    whole = len(steps) == len(recording.steps) > 0
    return ReplayReport(
        recording=meta.id,
        program=meta.session.program,
        task=meta.session.task,
        complete=recording.complete,
        session_id=session and session.id,
        tolerance_px=tolerance_px,
        steps=steps,
        totals=Totals(
            recorded_steps=len(recording.steps),
            replayed_steps=len(steps),
            same=len(steps) - different,
            different=different,
            recorded_usage=_sum(step.recorded.usage for step in steps),
            replayed_usage=_sum(step.replayed.usage for step in steps),
        ),
        error=error,
        notes=_notes(recording, session),
        same=error is None and whole and different == 0,
    )


def _notes(recording: Recording, session: Session | None) -> list[str]:
    notes = []
    if not recording.steps:
        notes.append("the recording has no steps: nothing was compared")
    elif not recording.complete:
        notes.append(f"the recorded run was cut off after {len(recording.steps)} whole steps")
    if session is not None and session.space != recording.meta.space:
        was, now = recording.meta.space.model, session.space.model
        notes.append(f"the model looks at screens of {now} px now, of {was} px in the recording")
    return notes


def _sum(usages: Iterable[Usage]) -> Usage:
    return reduce(Usage.plus, usages, Usage())
