"""Mode ``model``: the recorded screens through a router, turn by turn."""

from __future__ import annotations

import asyncio
import logging
import time

from agentserve.client import RouterClient
from agentserve.core.errors import AgentServeError
from agentserve.core.sessions import Session, TurnResult
from agentserve.replay.bundle.reader import AgentRun, Recording, Turn
from agentserve.replay.compare.difference import Difference
from agentserve.replay.compare.expectations import (
    Expectations,
    StepExpectation,
    expectations_of,
)
from agentserve.replay.compare.prefix import cache_notes, comparable, prefix_differences
from agentserve.replay.compare.turns import turn_differences
from agentserve.replay.compare.usage import budget_differences, turn_usage_differences
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
            steps.append(_compared(turn, result, rules.at(turn.step.index)))
            notes += cache_notes(turn.result, result)
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


def _compared(turn: Turn, result: TurnResult, rules: StepExpectation) -> StepReport:
    differences: list[Difference] = []
    if comparable(turn.result, result):
        differences += turn_differences(
            turn.result,
            result,
            rules.actions,
            target=turn.step.target,
            to_target=turn.step.to_target,
            accepted=rules.accepted_actions,
        )
    differences += turn_usage_differences(
        turn.result.usage, result.usage, rules.usage, accepted=rules.accepted_counts
    )
    if rules.prefix:
        differences += prefix_differences(turn.result, result)
    return StepReport(
        index=turn.step.index,
        recorded=side_of(turn.result, turn.screenshot),
        replayed=side_of(result, turn.screenshot),
        same=not differences,
        differences=differences,
    )


def _of_all(steps: list[StepReport], rules: Expectations) -> list[Difference]:
    """Of all turns together."""
    replayed = [step.replayed.usage for step in steps if step.replayed.usage]
    return budget_differences([step.recorded.usage for step in steps], replayed, rules.usage)


def side_of(result: TurnResult, screenshot: str) -> Side:
    """What a turn decided, looking at ``screenshot``."""
    return Side(
        screenshot=screenshot,
        action=result.action,
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
