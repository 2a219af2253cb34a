"""What was imported is done again on the admin site, in a real Chromium."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from playwright.async_api import Browser
from replay.importers.conftest import Made
from replay.modes.browser_rig import SETTINGS, record_scenario, replay_on
from replay.playwright_made import PAGES

from agentserve.browser.computer import open_computer
from agentserve.browser.launch import launch_browser
from agentserve.browser.pages import serve_pages
from agentserve.browser.scenarios import load_scenario, open_scenario
from agentserve.core.actions import Click, Done, Type
from agentserve.core.screens import Size
from agentserve.replay import Recording, ReplayReport, read_recording
from agentserve.replay.exporters import chrome, osworld
from agentserve.replay.importers.detect import take
from agentserve.replay.importers.taken import write_taken
from agentserve.replay.modes.browser import replay_browser

SIGN_IN = "admin/sign-in"


@pytest.fixture(scope="module")
async def browser() -> AsyncIterator[Browser]:
    async with launch_browser() as running:
        yield running


async def replayed(browser: Browser, source: Path, folder: Path, **options: Any) -> ReplayReport:
    """On a site of its own: the recorded one's address is another."""
    recording = read_recording(write_taken(folder, "taken", take(source)))
    async with serve_pages(PAGES) as site:
        path = recording.meta.url.split("/", 3)[3]
        async with open_computer(
            browser, f"{site}/{path}", viewport=recording.meta.viewport, closed=True
        ) as computer:
            await computer.load()
            result = await replay_browser(
                computer,
                recording,
                compare_screens=lambda *_: [],  # a screencast's frames are no screenshots
                **options,
            )
    return result.report


def with_settings(path: Path) -> Recording:
    """An import on pages that are made to show the same each time: its source does not say how."""
    recording = read_recording(path)
    return replace(recording, meta=recording.meta.model_copy(update={"page": SETTINGS}))


def flow(expected: str) -> dict[str, Any]:
    base = "http://127.0.0.1:9"  # where it was recorded nobody answers
    email = {
        "target": "main",
        "selectors": [["aria/Enter Email Address..."], ["#exampleInputEmail"]],
    }
    point = {"offsetX": 30, "offsetY": 8, "deviceType": "mouse", "button": "primary"}
    link = {"selectors": ['aria/Forgot Password?[role="link"]', "text/Forgot Password"]}
    return {
        "title": "Ask for a password",
        "steps": [
            {"type": "setViewport", "width": 1120, "height": 672, "deviceScaleFactor": 1,
             "isMobile": False, "hasTouch": False, "isLandscape": True},
            {"type": "navigate", "url": f"{base}/login.html",
             "assertedEvents": [{"type": "navigation", "url": f"{base}/login.html"}]},
            {"type": "click", **email, **point},
            {"type": "change", **email, "value": "ada@example.com"},
            {"type": "keyDown", "target": "main", "key": "Tab"},
            {"type": "keyUp", "target": "main", "key": "Tab"},
            {"type": "keyDown", "target": "main", "key": "S"},
            {"type": "keyUp", "target": "main", "key": "S"},
            {"type": "hover", **link},
            {"type": "waitForExpression",
             "expression": "exampleInputEmail.value + exampleInputPassword.value === "
             "'ada@example.comS'"},
            {"type": "click", **link, **point,
             "assertedEvents": [{"type": "navigation", "url": f"{base}/forgot-password.html"}]},
            {"type": "waitForElement", "selectors": [[f"text/{expected}"]], "timeout": 3000},
            {"type": "scroll", "x": 0, "y": 0},
        ],
    }  # fmt: skip


@pytest.mark.parametrize(
    ("expected", "same"), [("Forgot Your Password?", True), ("Forgot Your Key?", False)]
)
async def test_a_flow_of_chrome(
    browser: Browser, tmp_path: Path, expected: str, same: bool
) -> None:
    source = tmp_path / "flow.json"
    source.write_text(json.dumps(flow(expected)))
    report = await replayed(browser, source, tmp_path)
    different = {step.index: step.differences for step in report.steps if not step.same}
    if same:
        assert report.same, different
    else:
        (found,) = different
        (difference,) = different[found]
        assert (difference.comparer, difference.field) == ("outcome", "outcome.status")


async def test_a_recording_of_ours_that_went_through_a_flow_of_chrome(
    browser: Browser, tmp_path: Path
) -> None:
    """Each page is the one that was recorded, the one at the end as well."""
    acts = (Click(x=790, y=542), Done())  # the link Forgot Password?
    made = await record_scenario(browser, tmp_path, SIGN_IN, acts)
    (data,) = chrome.give(made).files.values()
    (tmp_path / "flow.json").write_bytes(data)
    recording = with_settings(write_taken(tmp_path, "taken", take(tmp_path / "flow.json")))
    report = await replay_on(browser, recording, SIGN_IN)
    assert report.error is None
    assert report.same, [(step.index, step.differences) for step in report.steps if not step.same]
    assert recording.steps[-1].url.endswith("/forgot-password.html")


async def test_codegens_lines(browser: Browser, made: Made, tmp_path: Path) -> None:
    report = await replayed(browser, made.codegen, tmp_path)
    assert report.same, [step for step in report.steps if not step.same]


async def test_a_trace(browser: Browser, made: Made, tmp_path: Path) -> None:
    report = await replayed(browser, made.trace, tmp_path)
    assert report.error is None and len(report.steps) == 31
    assert report.same, [(step.index, step.differences) for step in report.steps if not step.same]


async def test_a_history_of_browser_use(browser: Browser, tmp_path: Path) -> None:
    """Its pictures have a scroll bar, and fewer colours than it saw: they are not compared."""
    source = Path(__file__).with_name("fixtures") / "browser_use/history.json"
    recording = read_recording(write_taken(tmp_path, "taken", take(source)))
    report = await replay_on(browser, recording, SIGN_IN, compare_screens=lambda *_: [])
    assert report.error is None and report.totals.replayed_steps == len(recording.steps) == 9
    assert report.same, [(step.index, step.differences) for step in report.steps if not step.same]


async def test_a_trajectory_of_osworld(browser: Browser, tmp_path: Path) -> None:
    """It has no elements, and its pictures are those that it was made with: screens are compared.
    Exported again it is the same, byte for byte."""
    actions = (Click(x=794, y=173), Type(text="ada@example.com"), Click(x=794, y=239), Done())
    made = await record_scenario(browser, tmp_path, SIGN_IN, actions)
    given = osworld.give(made)
    folder = tmp_path / "trajectory"
    folder.mkdir()
    for name, data in given.files.items():
        (folder / name).write_bytes(data)
    recording = with_settings(write_taken(tmp_path, "taken", take(folder)))
    report = await replay_on(browser, recording, SIGN_IN)
    assert report.error is None
    assert report.same, [(step.index, step.differences) for step in report.steps if not step.same]
    assert sum(step.recorded.screenshot is not None for step in report.steps) >= len(actions)
    assert osworld.give(recording).files == given.files


async def test_a_trace_of_miniwob(browser: Browser, tmp_path: Path) -> None:
    """Made by the installed Playwright on a task of its own chance, done again on the same one, and
    given to Chrome's Recorder and back."""
    name = "miniwob/enter-text"
    async with open_scenario(browser, load_scenario(name, 3), settings=SETTINGS) as stage:
        page = stage.computer.page
        await page.context.tracing.start(screenshots=True, snapshots=True)
        await page.goto(page.url)
        await page.locator("#sync-task-cover").click()
        await page.locator("#tt").fill("Myrtie")
        await page.get_by_role("button", name="Submit").click()
        await page.context.tracing.stop(path=tmp_path / "trace.zip")
    recording = with_settings(write_taken(tmp_path, "taken", take(tmp_path / "trace.zip")))
    assert recording.meta.viewport == Size(width=160, height=210)
    report = await replay_on(browser, recording, name, compare_screens=lambda *_: [])
    assert report.error is None
    assert report.same, [(step.index, step.differences) for step in report.steps if not step.same]
    (data,) = chrome.give(recording).files.values()
    (tmp_path / "flow.json").write_bytes(data)
    again = with_settings(write_taken(tmp_path, "again", take(tmp_path / "flow.json")))
    report = await replay_on(browser, again, name, compare_screens=lambda *_: [])
    assert report.error is None
    assert report.same, [(step.index, step.differences) for step in report.steps if not step.same]
