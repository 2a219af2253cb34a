"""Recordings of actions on scenarios, and replays of them on the same pages with faults."""

from __future__ import annotations

import dataclasses
from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

from playwright.async_api import Browser

from agentserve import __version__
from agentserve.browser.computer import PlaywrightComputer
from agentserve.browser.network import Network, NetworkRecording
from agentserve.browser.scenarios import Scenario, load_scenario, open_scenario
from agentserve.core.actions import points
from agentserve.core.pages import PageSettings
from agentserve.core.runs import RunSummary
from agentserve.core.sessions import Outcome
from agentserve.regression.accepting import accept_replayed
from agentserve.regression.browsing import compare_aria, compare_screens
from agentserve.replay import EndLine, Meta, Recording, RecordingWriter, StepLine, read_recording
from agentserve.replay.compare.expectations import expectations_of
from agentserve.replay.modes.browser import replay_browser
from agentserve.replay.results import ReplayReport

SETTINGS = PageSettings(
    fixed_time=datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC),
    random_seed=1,
    animations=False,
    fonts_awaited=True,
)
Prepare = Callable[[PlaywrightComputer], Awaitable[None]]


async def record_scenario(
    browser: Browser,
    root: Path,
    name: str,
    actions: Sequence[Any],
    *,
    pages: Path | None = None,
    **options: Any,
) -> Recording:
    """Perform the actions and record them, and the network, as a person's would be. None is a step
    in which nothing is done."""
    scenario = _scenario(name, pages)
    network = NetworkRecording()
    options["network"] = network
    options.setdefault("settings", SETTINGS)
    async with open_scenario(browser, scenario, **options) as stage:
        computer = stage.computer
        meta = Meta(
            id=name.replace("/", "-"),
            created_at=datetime(2026, 1, 2, tzinfo=UTC),
            agentserve_version=__version__,
            source="person",
            url=computer.url,
            viewport=scenario.viewport,
            scale=scenario.scale,
            page=options["settings"],
        )
        writer = RecordingWriter(root, meta)
        await write_steps(computer, writer, actions)
        writer.set_network(await network.finish())
        writer.append(EndLine.model_validate(dict(RunSummary(end="closed", turns=len(actions)))))
    return read_recording(writer.folder)


async def write_steps(
    computer: PlaywrightComputer, writer: RecordingWriter, actions: Sequence[Any]
) -> None:
    """Perform each action and append it as a step, with what was there before it."""
    for index, action in enumerate(actions):
        screenshot = writer.add_screenshot(await computer.screenshot())
        aria, url = writer.add_aria(await computer.aria()), computer.url
        places = points(action) if action is not None else []
        found = [await computer.element_at(x, y) for x, y in places]
        target, to_target = (*found, None, None)[:2]
        outcome = Outcome(status="ok")
        if action is not None:
            outcome = (await computer.perform_recorded(action)).outcome
        writer.append(
            StepLine(
                index=index,
                url=url,
                screenshot=screenshot,
                aria=aria,
                performed=action,
                target=target,
                to_target=to_target,
                outcome=outcome,
            )
        )


async def replay_on(
    browser: Browser,
    recording: Recording,
    name: str,
    *,
    pages: Path | None = None,
    prepare: Prepare | None = None,
    network: Network | None = None,
    accept: bool = False,
    **options: Any,
) -> ReplayReport:
    """Replay on the scenario's pages, by the comparers that agentserve replay uses. ``pages`` are
    files that lie over them, ``prepare`` acts on the opened page before the replay. ``accept``:
    what is found is expected from now on."""
    settings = recording.meta.page
    scenario = _scenario(name, pages)
    async with open_scenario(browser, scenario, settings=settings, network=network) as stage:
        if prepare is not None:
            await prepare(stage.computer)
        rules = expectations_of(recording)
        if "tolerance_px" not in rules.actions.model_fields_set:  # nothing moves here by itself
            strict = rules.actions.model_copy(update={"tolerance_px": 2.0})
            rules = rules.model_copy(update={"actions": strict})
        own = {
            "compare_screens": partial(compare_screens, recording, rules),
            "compare_aria": partial(compare_aria, recording, rules),
            "expectations": rules,
        }
        replayed = await replay_browser(stage.computer, recording, **own | options)
    if accept:
        accept_replayed(replayed)
    return replayed.report


def _scenario(name: str, pages: Path | None) -> Scenario:
    scenario = load_scenario(name, 3)
    if pages is None:
        return scenario
    return dataclasses.replace(scenario, folders=(pages, *scenario.folders))


def changed_page(folder: Path, scenario: str, file: str, *changes: tuple[str, str]) -> Path:
    """A folder with one page of a scenario in which texts were replaced."""
    original = load_scenario(scenario).folders[0] / file
    text = original.read_text(encoding="utf-8")
    for old, new in changes:
        assert old in text, old
        text = text.replace(old, new, 1)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / file).write_text(text, encoding="utf-8")
    return folder


def comparers(report: ReplayReport) -> list[list[str]]:
    """What found a difference, by step."""
    return [sorted({each.comparer for each in step.differences}) for step in report.steps]
