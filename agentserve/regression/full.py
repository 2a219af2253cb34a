"""Mode ``full``: an agent does the recorded task anew, on the live pages; its outcome and its path
are compared."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from playwright.async_api import Browser

from agentserve.agents.run import Agent, OpenedPage, Redacted, run_agent
from agentserve.client import RouterClient
from agentserve.core.actions.recorded import describe
from agentserve.core.config import RunConfig
from agentserve.core.errors import AgentServeError, BrowserFailed, RecordingError
from agentserve.core.screens import Size
from agentserve.core.sessions import ScreenPolicy, Usage
from agentserve.regression.browsing import value_of
from agentserve.regression.targets import live_target
from agentserve.replay import Recording, Replayed, read_recording
from agentserve.replay.bundle.format import StepLine
from agentserve.replay.compare.difference import Difference
from agentserve.replay.compare.expectations import Expectations, OutcomeRule
from agentserve.replay.compare.outcome import outcome_differences
from agentserve.replay.compare.prefix import prefix_differences
from agentserve.replay.compare.turns import action_differences, turn_differences
from agentserve.replay.compare.usage import budget_differences, turn_usage_differences
from agentserve.replay.compare.viewports import viewport_at
from agentserve.replay.modes.reporting import failure_of, report_of
from agentserve.replay.redaction.secrets import Secrets
from agentserve.replay.results import Side, StepReport

SLACK_TURNS = 5
"""An agent that takes so many turns more than it took then has lost its way."""


async def replay_full(
    client: RouterClient,
    browser: Browser,
    recording: Recording,
    rules: Expectations,
    folder: Path,
    secrets: Mapping[str, str],
) -> Replayed:
    """Compare the recorded run with another one of the same task, by the same program with the same
    settings, on pages that are made to show the same.

    It is recorded below ``folder``, without the regions that the recording keeps out and without
    ``secrets``, values by their names. Raises RecordingError for a recording that no agent of ours
    made, or that is damaged.
    """
    begun = time.perf_counter()
    try:
        again, value, failure = await _run_again(
            client, browser, recording, rules.outcome, folder, secrets
        )
    except RecordingError:
        raise
    except AgentServeError as error:  # no page, no session: that is a result
        told = failure_of(error, None, Secrets(secrets).hidden)
        report = report_of(recording, "full", [], recorded_steps=len(recording.taken), error=told)
        return Replayed(report, recording)
    steps = [
        compare_step(was, now, rules, viewport_at(recording, was.index))
        for was, now in zip(recording.taken, again.taken, strict=False)
    ]
    last = recording.taken[-1].index if recording.taken else 0
    answers = rules.at(last).actions
    report = report_of(
        recording,
        "full",
        steps,
        recorded_steps=len(recording.taken),
        differences=[
            *_path(recording.taken, again.taken),
            *budget_differences(_usages(recording), _usages(again), rules.usage),
            *outcome_differences(
                recording.end,
                again.end,
                rules.outcome,
                value=value,
                failure=failure,
                answers=answers.texts if answers.checked else None,
            ),
        ],
        notes=[f"the task was done anew in {len(again.taken)} turns"],
        seconds=time.perf_counter() - begun,
    )
    pictures = {s.screenshot: again.screenshot(s.screenshot) for s in again.steps if s.screenshot}
    return Replayed(report, recording, pictures)


async def _run_again(
    client: RouterClient,
    browser: Browser,
    recording: Recording,
    rule: OutcomeRule,
    folder: Path,
    secrets: Mapping[str, str],
) -> tuple[Recording, Any, str]:
    """The new recording; what the rule's script gave at its end, and why it gave nothing."""
    run, meta, hidden = recording.agent(), recording.meta, Secrets(secrets)
    given: tuple[Any, str] = (None, "")

    async def ended(opened: OpenedPage) -> None:
        nonlocal given
        try:
            given = await value_of(opened, rule, hidden)
        except BrowserFailed as error:
            given = (None, hidden.hidden(error.message))

    fields = run.session.model_dump(include=set(ScreenPolicy.model_fields))
    finished = await run_agent(
        client,
        browser,
        Agent(run.session.program, ScreenPolicy.model_validate(fields), run.session.model),
        live_target(meta, secrets),
        RunConfig(max_turns=len(run.turns) + SLACK_TURNS),
        folder,
        seed=meta.scenario.seed if meta.scenario else None,
        redacted=Redacted(tuple(meta.masks), secrets),
        page=meta.page.model_copy(update={"network": "live"}),
        ended=ended,
    )
    return read_recording(finished.recording), *given


def _usages(recording: Recording) -> list[Usage]:
    return [step.result.usage for step in recording.steps if step.result is not None]


def compare_step(was: StepLine, now: StepLine, rules: Expectations, viewport: Size) -> StepReport:
    """What was decided, and what it cost by the budgets; the counts of other screens are other
    ones."""
    own = rules.at(was.index)
    asked: dict[str, Any] = {
        "target": was.target,
        "to_target": was.to_target,
        "now": (now.target, now.to_target),
        "viewport": viewport,
        "accepted": own.accepted_by("full"),
    }
    if was.result is None or now.result is None:
        differences = action_differences(was.performed, now.performed, own.actions, **asked)
    else:
        differences = turn_differences(was.result, now.result, own.actions, **asked)
    if now.result is not None:
        budgets = own.usage.model_copy(update={"counts": ()})
        usage = was.result and was.result.usage
        differences += turn_usage_differences(usage, now.result.usage, budgets)
        if own.prefix:
            differences += prefix_differences(was.result, now.result)
    return StepReport(
        index=was.index,
        recorded=_side(was),
        replayed=_side(now),
        same=not differences,
        differences=differences,
    )


def _side(step: StepLine) -> Side:
    result = step.result
    return Side(
        screenshot=step.screenshot,
        action=step.performed,
        target=step.target,
        invalid=result and result.invalid,
        text=result.text if result else "",
        variables=result.variables if result else {},
        usage=result and result.usage,
        token_map=result and result.token_map,
        rebuilt=result.rebuilt if result else False,
        ms=step.step_ms,
    )


def _path(was: Sequence[StepLine], now: Sequence[StepLine]) -> list[Difference]:
    """A path that is longer or shorter than the recorded one."""
    if len(was) == len(now):
        return []
    longer = now[len(was) :] or was[len(now) :]
    told = "; ".join(describe(step.performed) for step in longer if step.performed)
    word = "more" if len(now) > len(was) else "fewer"
    return [
        Difference(
            comparer="outcome",
            field="path.steps",
            recorded=len(was),
            replayed=len(now),
            message=f"{abs(len(was) - len(now))} steps {word}: {told[:500]}",
        )
    ]
