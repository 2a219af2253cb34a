"""No false alarm: the same recordings replayed again and again on the pages they were made on."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.async_api import Browser
from replay.modes.browser_rig import record_scenario, replay_on

from agentserve.browser.network import Watching, read_har
from agentserve.core.actions import Click, Done, Drag, Key, Scroll, Type
from agentserve.replay.compare.aria import aria_differences
from agentserve.replay.compare.screens import screen_differences

TIMES = 5
JOURNEYS = {
    "admin/sign-in": (
        Click(x=794, y=173),
        Type(text="ada@example.com\n"),
        Click(x=794, y=239),
        Type(text="analytical"),
        Click(x=794, y=343),
        Scroll(x=560, y=400, dy=300),
        Done(),
    ),
    "admin/find-office": (
        Click(x=112, y=188),
        Click(x=829, y=35),
        Key(keys="Escape"),
        Click(x=112, y=99),
        Done(),
    ),
    "miniwob/click-button": (Click(x=27, y=94), Done()),
    "miniwob/enter-text": (Click(x=80, y=74), Type(text="Ada"), Drag(x=20, y=74, to_x=90, to_y=74)),
}


@pytest.mark.soak
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("name", JOURNEYS)
async def test_clean_replays_raise_no_alarm(browser: Browser, tmp_path: Path, name: str) -> None:
    """Twenty in all, with the real comparers and every answer of the network compared."""
    recording = await record_scenario(browser, tmp_path, name, JOURNEYS[name])
    har = recording.network()
    assert har is not None
    for _ in range(TIMES):
        watching = Watching(read_har(har), recorded_url=recording.meta.url)
        report = await replay_on(
            browser,
            recording,
            name,
            network=watching,
            compare_screens=lambda step, was, now: screen_differences(
                was, now, viewport=recording.meta.viewport
            ),
            compare_aria=lambda step, was, now: aria_differences(was, now),
        )
        assert report.same, [step.differences for step in report.steps]
