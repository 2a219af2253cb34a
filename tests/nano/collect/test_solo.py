"""Episodes are played on real pages, and look as they do when the product opens them afresh."""

from __future__ import annotations

import io
from collections.abc import AsyncIterator

import pytest
from PIL import Image, ImageChops
from playwright.async_api import Browser

from agentserve.browser.scenarios import load_scenario, open_scenario
from agentserve.core.actions import action_to_css, parse_action
from agentserve.nano.collect.points import SPACE
from agentserve.nano.collect.solo import Episode, Solo, open_solo

SEED = 50_010_000


@pytest.fixture(scope="module")
async def solo(browser: Browser) -> AsyncIterator[Solo]:
    async with open_solo(browser) as opened:
        yield opened


@pytest.mark.parametrize("task", ["login-user", "click-checkboxes", "enter-text"])
async def test_a_second_episode_on_a_page_is_the_products(
    browser: Browser, solo: Solo, task: str
) -> None:
    await solo.play(task, SEED)
    episode = await solo.play(task, SEED + 1)
    assert episode.solved, episode.why
    async with open_scenario(browser, load_scenario(f"miniwob/{task}", SEED + 1)) as stage:
        stage.computer.fit(SPACE)
        for record, png in episode.screens:
            expected = await stage.computer.screenshot()
            with Image.open(io.BytesIO(expected)) as theirs, Image.open(io.BytesIO(png)) as ours:
                difference = ImageChops.difference(theirs.convert("RGB"), ours.convert("RGB"))
            assert difference.getbbox() is None, f"turn {record['turn']}"
            action = parse_action(record["action"], SPACE.model)
            await stage.computer.perform(action_to_css(action, SPACE))
        assert (await stage.check()).success


def test_turns_carry_what_was_done_before(played: Episode) -> None:
    records = [record for record, _ in played.screens]
    assert [record["turn"] for record in records] == list(range(len(records)))
    assert len(records) >= 3
    for record in records:
        done = [[earlier["thought"], earlier["action"]] for earlier in records[: record["turn"]]]
        assert record["history"] == done


def test_typing_has_no_target(played: Episode) -> None:
    typed = [record for record, _ in played.screens if record["action"].startswith("type ")]
    assert len(typed) == 2
    assert all(record["target"] is None and record["thought"] for record in typed)


@pytest.fixture(scope="module")
async def played(solo: Solo) -> Episode:
    """A restyled login."""
    episode = await solo.play("login-user", SEED + 2, "#area { padding-left: 9px }")
    assert episode.solved, episode.why
    assert all(record["augmented"] for record, _ in episode.screens)
    return episode


async def test_an_episode_that_fails_says_why(solo: Solo, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("agentserve.nano.collect.solo.MAX_TURNS", 1)
    episode = await solo.play("login-user", SEED + 3)
    assert not episode.solved
    assert episode.why == "not done after 1 turns"
