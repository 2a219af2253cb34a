"""Plays many episodes at once in one browser."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Mapping

from playwright.async_api import Browser

from agentserve.browser.scenarios import load_scenario, open_scenario
from agentserve.nano.evaluate.episodes import Episode, Job, PlayerName
from agentserve.nano.evaluate.players import Player


async def play_all(
    browser: Browser,
    players: Mapping[PlayerName, Player],
    jobs: Iterable[Job],
    on_episode: Callable[[Episode], None],
    *,
    concurrency: int,
    max_turns: int | None = None,
) -> None:
    """Play ``jobs`` in their order, ``concurrency`` at a time, each in a browser context of its
    own: while one waits for its page to settle, others ask the model.

    ``on_episode`` is told of each as it ends. ``max_turns`` None is each scenario's own. The first
    error that a player or the browser raises cancels all and is raised; so does cancellation.
    """
    waiting = iter(jobs)

    async def lane() -> None:
        for job in waiting:
            on_episode(await play(browser, players[job.player], job, max_turns))

    try:
        async with asyncio.TaskGroup() as group:
            for _ in range(concurrency):
                group.create_task(lane())
    except ExceptionGroup as errors:
        raise errors.exceptions[0] from None


async def play(browser: Browser, player: Player, job: Job, max_turns: int | None) -> Episode:
    """Play one episode. Raises InvalidRequest for an unknown task, BrowserFailed when its page
    cannot be opened, and what the player raises."""
    begun = time.perf_counter()
    scenario = load_scenario(f"miniwob/{job.task}", job.seed)
    async with open_scenario(browser, scenario) as stage:
        played = await player(stage, job, max_turns or scenario.max_turns)
    seconds = round(time.perf_counter() - begun, 3)
    return Episode(**job.model_dump(), **played.model_dump(), seconds=seconds)
