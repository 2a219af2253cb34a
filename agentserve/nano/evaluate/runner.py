"""Plays many episodes at once in one browser."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Mapping

from playwright.async_api import Browser

from agentserve.browser.miniwob import html_folder
from agentserve.browser.pages import serve_pages
from agentserve.browser.scenarios import load_scenario, open_scenario
from agentserve.core.errors import BrowserFailed
from agentserve.nano.evaluate.episodes import Episode, Job, PlayerName
from agentserve.nano.evaluate.players import Player, broken_off

ATTEMPTS = 3
"""On a busy machine a page may fail to open in time, which says nothing about the player."""


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

    async def lane(served: str) -> None:
        for job in waiting:
            on_episode(await play(browser, served, players[job.player], job, max_turns))

    try:
        async with serve_pages(html_folder()) as served, asyncio.TaskGroup() as group:
            for _ in range(concurrency):
                group.create_task(lane(served))
    except ExceptionGroup as errors:
        raise errors.exceptions[0] from None


async def play(
    browser: Browser, served: str, player: Player, job: Job, max_turns: int | None
) -> Episode:
    """Play one episode on the pages that are ``served``; what the machinery breaks off is played
    again, ATTEMPTS times in all.

    Raises InvalidRequest for an unknown task, BrowserFailed when the browser is gone, and what the
    player raises.
    """
    scenario = load_scenario(f"miniwob/{job.task}", job.seed)
    attempts = 0
    while True:
        attempts += 1
        begun = time.perf_counter()
        try:
            async with open_scenario(browser, scenario, served=served) as stage:
                played = await player(stage, job, max_turns or scenario.max_turns)
        except BrowserFailed as error:
            if not browser.is_connected():
                raise
            played = broken_off(error)
        if played.end != "error" or attempts == ATTEMPTS:
            break
    seconds = round(time.perf_counter() - begun, 3)
    fields = job.model_dump() | played.model_dump()
    return Episode(**fields, attempts=attempts, seconds=seconds)
