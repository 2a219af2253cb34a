"""Mode ``model``: the recorded screens through a router, turn by turn."""

from __future__ import annotations

import asyncio
import logging
import time

from agentserve.client import RouterClient
from agentserve.core.errors import AgentServeError
from agentserve.core.sessions import Session, TurnResult
from agentserve.replay.bundle.format import StepLine
from agentserve.replay.bundle.reader import AgentRun, Recording, Turn
from agentserve.replay.compare.difference import Difference
from agentserve.replay.compare.expectations import Expectations, expectations_of
from agentserve.replay.compare.steps import Compared, compare_turn
from agentserve.replay.compare.usage import budget_differences
from agentserve.replay.compare.viewports import viewport_at
from agentserve.replay.modes.reporting import failure_of, report_of
from agentserve.replay.results import OnStep, ReplayFailure, ReplayReport, Side, StepReport

log = logging.getLogger(__name__)


async def replay_model(
    client: RouterClient,
    recording: Recording,
    *,
    expectations: Expectations | None = None,
    on_step: OnStep | None = None,
) -> ReplayReport:
    """Replay a recording in a session created like the recorded one, and release it.

    Open loop: the recorded screenshots, instructions and outcomes are fed whatever the model
    decides now, so that one difference does not hide what comes behind it. An error of the router
    ends the replay and is part of the report; a damaged screenshot, and a recording that no agent
    of ours made, raise RecordingError. ``expectations``: other ones than the recording's own.
    """
    begun = time.perf_counter()
    run = recording.agent()
    rules = expectations_of(recording) if expectations is None else expectations
    steps: list[StepReport] = []
    notes: list[str] = []

    def report(session: Session | None, failure: ReplayFailure | None) -> ReplayReport:
        return report_of(
            recording,
            "model",
            steps,
            recorded_steps=len(run.turns),
            session=session,
            error=failure,
            differences=_of_all(steps, rules),
            settings={"tolerance": f"{rules.actions.tolerance_px:g} px"},
            notes=[*_notes(run, session), *notes],
            seconds=time.perf_counter() - begun,
        )

    try:
        session = await client.create_session(
            run.session.model_copy(update={"metadata": {"replay_of": recording.meta.id}})
        )
    except AgentServeError as error:
        return report(None, failure_of(error, None))
    failure = None
    try:
        epoch = session.epoch
        for turn in run.turns:
            screenshot = await asyncio.to_thread(recording.screenshot, turn.screenshot)
            try:
                result = await client.turn(
                    session.id,
                    screenshot,
                    instruction=turn.step.instruction,
                    epoch=epoch,
                    outcome=turn.step.outcome_sent,
                )
            except AgentServeError as error:
                failure = failure_of(error, turn.step.index)
                break
            epoch = result.epoch + 1
            compared = compare_turn(
                turn.step, result, rules, viewport=viewport_at(recording, turn.step.index)
            )
            steps.append(_step(turn, result, compared))
            notes += compared.notes
            if on_step is not None:
                on_step(steps[-1])
    finally:
        await _release(client, session.id)
    return report(session, failure)


async def _release(client: RouterClient, session_id: str) -> None:
    try:
        await client.release(session_id)
    except AgentServeError as error:  # the session expires by itself; the report matters more
        log.warning("session %s was not released: %s", session_id, error)


def _step(turn: Turn, result: TurnResult, compared: Compared) -> StepReport:
    return StepReport(
        index=turn.step.index,
        recorded=side_of(turn.result, turn.screenshot, turn.step),
        replayed=side_of(result, turn.screenshot),
        same=not compared.differences,
        compared=compared.decided,
        differences=compared.differences,
    )


def _of_all(steps: list[StepReport], rules: Expectations) -> list[Difference]:
    """Of all turns together."""
    replayed = [step.replayed.usage for step in steps if step.replayed.usage]
    return budget_differences([step.recorded.usage for step in steps], replayed, rules.usage)


def side_of(result: TurnResult, screenshot: str, step: StepLine | None = None) -> Side:
    """What a turn decided, looking at ``screenshot``; ``step`` knows what it was aimed at."""
    return Side(
        screenshot=screenshot,
        action=result.action,
        target=step and step.target,
        to_target=step and step.to_target,
        invalid=result.invalid,
        text=result.text,
        variables=result.variables,
        usage=result.usage,
        token_map=result.token_map,
        rebuilt=result.rebuilt,
        ms=result.timings.total_ms,
    )


def _notes(run: AgentRun, session: Session | None) -> list[str]:
    if session is None or session.space == run.space:
        return []
    was, now = run.space.model, session.space.model
    return [f"the model looks at screens of {now} px now, of {was} px in the recording"]
