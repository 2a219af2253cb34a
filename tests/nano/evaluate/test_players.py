"""The players on real pages; the model's place behind a real router is taken by a fake worker."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from playwright.async_api import Browser
from router.rig import running_rig

from agentserve.browser.scenarios import Stage, load_scenario, open_scenario
from agentserve.core.actions import Click, Navigate, format_action
from agentserve.core.errors import Unavailable, UnknownProgram
from agentserve.core.screens import screen_space
from agentserve.core.sessions import ScreenPolicy
from agentserve.nano.evaluate import players
from agentserve.nano.evaluate.episodes import Job, PlayerName
from agentserve.nano.evaluate.players import Trained, check, oracle, random_clicks
from agentserve.nano.oracles import next_step, to_action
from agentserve.nano.recipe import GRID
from agentserve.testing.worker import FakeWorker

CURRENT = ScreenPolicy(policy="current")


def job(player: PlayerName, seed: int = 0) -> Job:
    return Job(task="click-test-2", seed=seed, player=player)


@asynccontextmanager
async def stage(
    browser: Browser, task: str = "click-test-2", seed: int = 0
) -> AsyncIterator[Stage]:
    async with open_scenario(browser, load_scenario(f"miniwob/{task}", seed)) as opened:
        yield opened


async def test_random_clicks_are_the_seeds_own(browser: Browser, monkeypatch) -> None:
    clicks: list[list[Click]] = []
    for seed in (0, 0, 1):
        async with stage(browser, "enter-text", seed) as opened:
            made: list[Click] = []
            perform = opened.computer.perform

            async def note(action, made=made, perform=perform):
                made.append(action)
                return await perform(action)

            monkeypatch.setattr(opened.computer, "perform", note)
            played = await random_clicks(opened, job("random", seed), 4)
        clicks.append(made)
        assert played.turns == len(made) >= 1
        assert played.end == ("max_turns" if len(made) == 4 else "task_ended")
        assert not played.success, "nothing was entered"
    assert clicks[0] == clicks[1]
    assert clicks[0] != clicks[2]


@pytest.mark.parametrize(("seed", "success"), [(2, True), (4, False)])
async def test_a_random_click_can_hit_or_miss(browser: Browser, seed: int, success: bool) -> None:
    async with stage(browser, "click-color", seed) as opened:
        played = await random_clicks(opened, Job(task="click-color", seed=seed, player="random"), 4)
    assert (played.end, played.success) == ("task_ended", success)
    assert (played.reward >= 0.99) is success


async def test_the_oracle_succeeds(browser: Browser) -> None:
    for seed in range(2):
        async with stage(browser, seed=seed) as opened:
            played = await oracle(opened, job("oracle", seed), 8)
        assert (played.success, played.end, played.turns) == (True, "task_ended", 1)


async def test_an_oracle_with_nothing_to_do_gives_up(browser: Browser, monkeypatch) -> None:
    async def nothing(page, task, goal) -> None:
        return None

    monkeypatch.setattr(players, "next_step", nothing)
    async with stage(browser) as opened:
        played = await oracle(opened, job("oracle"), 8)
    assert (played.success, played.end, played.turns) == (False, "gave_up", 0)


async def test_a_page_that_fails_ends_the_episode_as_an_error(browser: Browser) -> None:
    async with stage(browser) as opened:
        await opened.computer.page.close()
        for player in (random_clicks, oracle):
            played = await player(opened, job("random"), 8)
            assert (played.success, played.end) == (False, "error")
            assert played.message.startswith("browser_failed: ")


async def test_who_leaves_the_page_has_lost(browser: Browser) -> None:
    async with stage(browser) as opened:
        assert not (await check(opened)).done
        await opened.computer.perform(Navigate(url="#there"))
        assert not (await check(opened)).done, "still the same page"
        await opened.computer.perform(Navigate(url="/nowhere.html"))
        state = await check(opened)
        assert (state.done, state.success) == (True, False)


async def winning_action(browser: Browser) -> str:
    """What a perfect model would answer to the first screen."""
    async with stage(browser) as opened:
        scenario = opened.scenario
        step = await next_step(opened.computer.page, "click-test-2", opened.goal)
        space = screen_space(scenario.viewport, scenario.scale, GRID)
        return format_action(to_action(step, space))


async def test_the_trained_model_plays_by_way_of_a_router(browser: Browser, tmp_path: Path) -> None:
    worker = FakeWorker(answers=("key Tab", await winning_action(browser)))
    async with worker, running_rig(tmp_path, [worker]) as rig:
        async with stage(browser) as opened:
            player = Trained(rig.client, "scripted", CURRENT)
            played = await player(opened, job("trained"), 8)
        (session,) = (await rig.client.sessions()).sessions
    assert (played.success, played.reward, played.end) == (True, 1.0, "task_ended")
    assert played.turns == len(played.turn_ms) == len(played.step_ms) == 2
    assert all(0 < turn < step for turn, step in zip(played.turn_ms, played.step_ms, strict=True))
    assert played.usage.visual_tokens == 2 * 80
    assert session.task == opened.goal
    assert session.policy == "current"
    assert session.metadata == {"run": "miniwob/click-test-2", "seed": "0"}
    assert session.status == "released"


async def test_a_model_that_never_gets_there_stops_at_the_most_turns(
    browser: Browser, tmp_path: Path
) -> None:
    worker = FakeWorker(answers=("key Tab",))
    async with worker, running_rig(tmp_path, [worker]) as rig, stage(browser) as opened:
        played = await Trained(rig.client, "scripted", CURRENT)(opened, job("trained"), 3)
    assert (played.success, played.reward, played.end) == (False, 0.0, "max_turns")
    assert played.turns == 3


async def test_a_model_that_leaves_the_page_has_lost(browser: Browser, tmp_path: Path) -> None:
    worker = FakeWorker(answers=('navigate "/nowhere.html"',))
    async with worker, running_rig(tmp_path, [worker]) as rig, stage(browser) as opened:
        played = await Trained(rig.client, "scripted", CURRENT)(opened, job("trained"), 3)
    assert (played.success, played.end, played.turns) == (False, "task_ended", 1)


async def test_what_would_end_every_episode_is_raised(browser: Browser, tmp_path: Path) -> None:
    async with running_rig(tmp_path) as rig, stage(browser) as opened:
        with pytest.raises(UnknownProgram):
            await Trained(rig.client, "nobody", CURRENT)(opened, job("trained"), 3)
        await rig.server.stop()
        with pytest.raises(Unavailable):
            await Trained(rig.client, "scripted", CURRENT)(opened, job("trained"), 3)
