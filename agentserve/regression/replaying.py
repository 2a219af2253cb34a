"""One recording replayed, in any mode."""

from __future__ import annotations

import asyncio
import tempfile
from dataclasses import replace
from pathlib import Path

from agentserve.core.errors import AgentServeError, InvalidRequest, RecordingError
from agentserve.regression.browsing import replay_in_browser
from agentserve.regression.full import replay_full
from agentserve.regression.options import ReplayOptions
from agentserve.regression.parts import Parts
from agentserve.regression.refusing import check_replay
from agentserve.replay import Recording, Replayed, replay_model
from agentserve.replay.compare.expectations import (
    Expectations,
    StepExpectation,
    expectations_of,
)
from agentserve.replay.modes.reporting import failure_of, report_of, unread_report
from agentserve.replay.results import Mode, OnStep


async def replay_one(
    parts: Parts,
    recording: Recording,
    name: str,
    options: ReplayOptions,
    on_step: OnStep | None = None,
) -> Replayed:
    """Replay a recording; ``name`` is the report's. What the router or the page says no to is part
    of the report, and so is what ``check_replay`` says: nothing is started for such a recording.

    Raises InvalidRequest for the mode engine, which needs two workers, and what starting a router
    or a browser raises.
    """
    try:
        rules = rules_for(recording, options)
        try:
            await asyncio.to_thread(check_replay, recording, rules, options)
        except InvalidRequest as error:
            return failed(recording, options.mode, name, error)
        replayed = await _replay(parts, recording, rules, options, on_step)
    except RecordingError as error:
        return failed(recording, options.mode, name, error)
    report = replayed.report.model_copy(update={"name": name})
    return replace(replayed, report=report, expectations=rules)


def failed(recording: Recording, mode: Mode, name: str, error: AgentServeError) -> Replayed:
    """What is told of a recording that cannot be replayed."""
    report = report_of(recording, mode, [], error=failure_of(error, None))
    return Replayed(report.model_copy(update={"name": name}), recording)


def unread(mode: Mode, name: str, error: AgentServeError) -> Replayed:
    """What is told of one that cannot even be read."""
    return Replayed(unread_report(mode, name, error), None)


async def _replay(
    parts: Parts,
    recording: Recording,
    rules: Expectations,
    options: ReplayOptions,
    on_step: OnStep | None,
) -> Replayed:
    """Raises RecordingError."""
    match options.mode:
        case "model":
            report = await replay_model(
                await parts.router(), recording, expectations=rules, on_step=on_step
            )
            return Replayed(report, recording)
        case "browser":
            browser = await parts.browser()
            return await replay_in_browser(browser, recording, rules, options, on_step)
        case "full":
            with tempfile.TemporaryDirectory(prefix="agentserve-full-") as folder:
                client, browser = await parts.router(), await parts.browser()
                return await replay_full(
                    client, browser, recording, rules, Path(folder), options.secrets
                )
        case "engine":
            raise InvalidRequest(
                "the mode engine compares two workers, not one with a recording",
                hint="see regression.engine",
            )


def rules_for(recording: Recording, options: ReplayOptions) -> Expectations:
    """What the recording expects, and what was asked for over it, in its steps as well. Raises
    RecordingError."""
    rules = expectations_of(recording)
    if options.tolerance_px is None:
        return rules
    tolerance = {"tolerance_px": options.tolerance_px}

    def over(own: StepExpectation) -> StepExpectation:
        if "tolerance_px" not in own.actions.model_fields_set:
            return own
        return own.model_copy(update={"actions": own.actions.model_copy(update=tolerance)})

    return rules.model_copy(
        update={
            "actions": rules.actions.model_copy(update=tolerance),
            "steps": tuple(over(own) for own in rules.steps),
        }
    )
