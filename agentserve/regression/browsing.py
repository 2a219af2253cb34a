"""Mode ``browser``: a recording's page is opened as it was, and what was recorded is done on it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial
from typing import Any

from playwright.async_api import Browser
from playwright.async_api import Error as PlaywrightError
from pydantic_core import from_json

from agentserve.agents.run import OpenedPage, open_target
from agentserve.browser.ask import ask
from agentserve.browser.network import Answering, Network, Watching, read_har
from agentserve.core.config import RunConfig
from agentserve.core.errors import AgentServeError, RecordingError
from agentserve.regression.options import ReplayOptions
from agentserve.regression.targets import live_target
from agentserve.replay import Recording, Replayed
from agentserve.replay.bundle.format import StepLine
from agentserve.replay.compare.aria import aria_differences
from agentserve.replay.compare.difference import Difference
from agentserve.replay.compare.expectations import Expectations, OutcomeRule
from agentserve.replay.compare.outcome import outcome_differences
from agentserve.replay.compare.screens import screen_differences
from agentserve.replay.compare.viewports import viewport_at
from agentserve.replay.modes.browser import replay_browser
from agentserve.replay.modes.reporting import failure_of, report_of
from agentserve.replay.redaction.secrets import Secrets, revealed
from agentserve.replay.results import OnStep


async def replay_in_browser(
    browser: Browser,
    recording: Recording,
    rules: Expectations,
    options: ReplayOptions,
    on_step: OnStep | None,
) -> Replayed:
    """Raises RecordingError for a damaged recording, and for one that does not say its page."""
    secrets = Secrets(options.secrets)
    try:
        network = network_of(recording, options)
        async with open_recorded(browser, recording, network, options.secrets) as opened:
            replayed = await replay_browser(
                opened.computer,
                recording,
                compare_screens=partial(compare_screens, recording, rules),
                compare_aria=partial(compare_aria, recording, rules),
                fill=_filled(options),
                secrets=secrets,
                expectations=rules,
                go_by_unsupported=options.go_by_unsupported,
                on_step=on_step,
            )
            return await _ended(replayed, opened, rules.outcome, secrets)
    except RecordingError:
        raise
    except AgentServeError as error:  # the page cannot be opened any more: that is a result
        report = report_of(recording, "browser", [], error=failure_of(error, None, secrets.hidden))
        return Replayed(report, recording)


@asynccontextmanager
async def open_recorded(
    browser: Browser, recording: Recording, network: Network | None, secrets: Mapping[str, str]
) -> AsyncIterator[OpenedPage]:
    """The page that a recording began on, made to show as it did then."""
    meta = recording.meta
    options: dict[str, Any] = {"settings": meta.page, "masks": meta.masks, "network": network}
    seed = meta.scenario.seed if meta.scenario else None
    settle = RunConfig().settle_timeout_s
    target = live_target(meta, secrets)
    async with open_target(browser, target, settle, seed, **options) as opened:
        yield opened


async def _ended(
    replayed: Replayed, opened: OpenedPage, rule: OutcomeRule, secrets: Secrets
) -> Replayed:
    """With what is wrong where the last step has led. Raises BrowserFailed when the page does not
    answer."""
    report, was = replayed.report, replayed.recording.end
    if report.error is not None:
        return replayed
    now = None
    if opened.check is not None and was is not None and was.success is not None:
        state = await opened.check()
        now = was.model_copy(update={"success": state.success})
    value, failure = await value_of(opened, rule, secrets)
    differences = outcome_differences(was if now else None, now, rule, value=value, failure=failure)
    if not differences:
        return replayed
    changes = {"differences": [*report.differences, *differences], "same": False}
    return replace(replayed, report=report.model_copy(update=changes))


async def value_of(opened: OpenedPage, rule: OutcomeRule, secrets: Secrets) -> tuple[Any, str]:
    """What the rule's script gives in the page that the last step has led to, as JSON says it, and
    why it gives nothing; both without the values of ``secrets``. Raises BrowserFailed when the page
    does not answer."""
    if rule.expression is None:
        return None, ""
    # JSON has no such numbers; their names are no number that anyone expects
    named = "(_, each) => Number.isFinite(each) || typeof each !== 'number' ? each : String(each)"
    script = f"async () => JSON.stringify(await (() => ({rule.expression}\n))(), {named})"
    try:
        text = await ask(opened.computer.page, script)
    except PlaywrightError as error:
        return None, secrets.hidden(f"the page answered: {error.message.splitlines()[0]}")
    if text is None:
        return None, ""  # undefined, or a function
    try:
        return from_json(secrets.hidden(text), allow_inf_nan=False), ""
    except (TypeError, ValueError):
        return None, "the script gives what is no JSON"


def network_of(recording: Recording, options: ReplayOptions) -> Network | None:
    """Raises RecordingError when there is nothing recorded to answer from."""
    data = recording.network()
    if data is None:
        if options.network == "recorded":
            raise RecordingError(
                f"{recording.name}: what its pages fetched was not recorded",
                hint="record it with --har, or replay it with --network live",
            )
        return None
    har, url, hidden = read_har(data), recording.meta.url, Secrets(options.secrets).hidden
    if options.network == "recorded":
        return Answering(har, options.on_miss, recorded_url=url, hidden=hidden)
    return Watching(har, recorded_url=url, hidden=hidden)


def compare_screens(
    recording: Recording, rules: Expectations, step: StepLine, was: bytes, now: bytes
) -> list[Difference]:
    """By what holds for the step. Blocking. Raises RecordingError."""
    own = rules.at(step.index)
    accepted = [partial(recording.screenshot, sha) for sha in own.accepted_screens]
    return screen_differences(
        was,
        now,
        own.screens,
        viewport=viewport_at(recording, step.index),
        accepted=accepted,
    )


def compare_aria(
    recording: Recording, rules: Expectations, step: StepLine, was: str, now: str
) -> list[Difference]:
    """By what holds for the step. Raises RecordingError."""
    own = rules.at(step.index)
    if not own.aria:
        return []
    accepted = [recording.aria(sha) for sha in own.accepted_aria]
    return aria_differences(was, now, accepted=accepted)


def _filled(options: ReplayOptions) -> Callable[[Any], Any]:
    return lambda action: revealed(action, options.secrets)
