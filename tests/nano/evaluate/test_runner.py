"""Many episodes at once, in one real browser."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest
from playwright.async_api import Browser

from agentserve.browser.launch import launch_browser
from agentserve.browser.miniwob import html_folder
from agentserve.browser.pages import serve_pages
from agentserve.core.errors import BrowserFailed, InvalidRequest, Unavailable
from agentserve.nano.evaluate.episodes import Episode, Job, Played, plan
from agentserve.nano.evaluate.players import broken_off, oracle, random_clicks
from agentserve.nano.evaluate.runner import ATTEMPTS, Lane, play_all

PLAYERS = {"random": random_clicks, "oracle": oracle}
NOTHING = Played(success=False, reward=0.0, end="max_turns", turns=0)


@pytest.fixture
async def served() -> AsyncIterator[str]:
    async with serve_pages(html_folder()) as base:
        yield base


@pytest.fixture
async def lane(browser: Browser, served: str) -> AsyncIterator[Lane]:
    async with Lane(browser, served) as lane:
        yield lane


async def test_both_baselines_play_the_same_seeds(browser: Browser) -> None:
    jobs = plan(("click-test",), 2, ("random", "oracle"))
    episodes: list[Episode] = []
    await play_all(browser, PLAYERS, jobs, episodes.append, concurrency=2, max_turns=3)
    assert {one.job for one in episodes} == set(jobs)
    assert len(episodes) == len(jobs)
    assert all(one.success for one in episodes if one.player == "oracle")
    assert all(one.turns <= 3 and one.seconds > 0 for one in episodes)


async def test_at_most_so_many_play_at_once_and_in_order(browser: Browser) -> None:
    before = len(browser.contexts)
    begun: list[int] = []
    open_pages: list[int] = []
    three = asyncio.Event()

    async def player(stage, job, max_turns) -> Played:
        begun.append(job.seed)
        if len(begun) == 3:
            three.set()
        await asyncio.wait_for(three.wait(), 60)
        open_pages.append(len(browser.contexts))
        return NOTHING

    jobs = plan(("click-test",), 7, ("random",))
    episodes: list[Episode] = []
    await play_all(browser, {"random": player}, jobs, episodes.append, concurrency=3)
    assert sorted(begun) == list(range(7))
    assert set(begun[:3]) == {0, 1, 2}
    assert max(open_pages) - before == 3


async def test_the_most_turns_are_the_scenarios_own_when_none_are_given(lane: Lane) -> None:
    asked: list[int] = []

    async def player(stage, job, max_turns) -> Played:
        asked.append(max_turns)
        assert stage.goal
        return NOTHING

    job = Job(task="click-test", seed=0, player="random")
    await lane.play(player, job, None)
    await lane.play(player, job, 2)
    assert asked == [8, 2]


async def test_an_error_of_a_player_ends_all(browser: Browser) -> None:
    episodes: list[Episode] = []
    cancelled: list[int] = []
    first = asyncio.Event()

    def keep(episode: Episode) -> None:
        episodes.append(episode)
        first.set()

    async def player(stage, job, max_turns) -> Played:
        if job.seed == 0:
            return NOTHING
        if job.seed == 1:
            await first.wait()
            raise Unavailable("the router is gone")
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.append(job.seed)
        return NOTHING

    jobs = plan(("click-test",), 9, ("random",))
    with pytest.raises(Unavailable, match="the router is gone"):
        await play_all(browser, {"random": player}, jobs, keep, concurrency=3)
    assert [one.seed for one in episodes] == [0]
    assert set(cancelled) <= {2, 3}, "what did not begin never does"


@pytest.mark.parametrize("fails", [1, ATTEMPTS])
async def test_what_the_machinery_breaks_off_is_played_again(lane: Lane, fails: int) -> None:
    begun = 0

    async def player(stage, job, max_turns) -> Played:
        nonlocal begun
        begun += 1
        if begun > fails:
            return NOTHING
        if begun == 1:
            raise BrowserFailed("the page does not answer")
        return broken_off(Unavailable("nobody is there"), turns=2)

    episode = await lane.play(player, Job(task="click-test", seed=0, player="random"), None)
    assert episode.attempts == begun == min(fails + 1, ATTEMPTS)
    if fails == ATTEMPTS:
        assert (episode.end, episode.success, episode.turns) == ("error", False, 2)
        assert "nobody is there" in episode.message
    else:
        assert episode.end == "max_turns"


async def test_without_a_browser_nothing_is_tried_again(served: str) -> None:
    begun = 0

    async def player(stage, job, max_turns) -> Played:
        nonlocal begun
        begun += 1
        await gone.close()
        return broken_off(BrowserFailed("the browser is gone"))

    async with launch_browser() as gone:
        with pytest.raises(BrowserFailed):
            await Lane(gone, served).play(
                player, Job(task="click-test", seed=0, player="random"), None
            )
    assert begun == 1


async def test_an_unknown_task_is_refused(lane: Lane) -> None:
    with pytest.raises(InvalidRequest, match="click-tset"):
        await lane.play(random_clicks, Job(task="click-tset", seed=0, player="random"), None)


async def test_cancelling_closes_the_pages_that_are_played(browser: Browser) -> None:
    before = len(browser.contexts)
    playing = asyncio.Semaphore(0)

    async def player(stage, job, max_turns) -> Played:
        playing.release()
        await asyncio.Event().wait()
        return NOTHING

    jobs = plan(("click-test",), 3, ("random",))
    task = asyncio.ensure_future(
        play_all(browser, {"random": player}, jobs, lambda _: None, concurrency=2)
    )
    async with asyncio.timeout(60):
        await playing.acquire()
        await playing.acquire()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert len(browser.contexts) == before
