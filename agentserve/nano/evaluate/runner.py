"""Plays many episodes at once in one browser."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import AsyncExitStack
from types import TracebackType
from typing import Self

from playwright.async_api import Browser

from agentserve.browser.computer import PlaywrightComputer
from agentserve.browser.miniwob import html_folder
from agentserve.browser.pages import serve_pages
from agentserve.browser.scenarios import Scenario, load_scenario, open_for, set_stage
from agentserve.core.errors import BrowserFailed
from agentserve.nano.evaluate.episodes import Episode, Job, Played, PlayerName
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
    """Play ``jobs`` in their order, ``concurrency`` at a time: while one waits for its page to
    settle, others ask the model.

    ``on_episode`` is told of each as it ends. ``max_turns`` None is each scenario's own. The first
    error that a player or the browser raises cancels all and is raised; so does cancellation.
    """
    waiting = iter(jobs)

    async def play_some(served: str) -> None:
        async with Lane(browser, served) as lane:
            for job in waiting:
                on_episode(await lane.play(players[job.player], job, max_turns))

    try:
        async with serve_pages(html_folder()) as served, asyncio.TaskGroup() as group:
            for _ in range(concurrency):
                group.create_task(play_some(served))
    except ExceptionGroup as errors:
        raise errors.exceptions[0] from None


class Lane:
    """Plays one episode after the other in a browser context of its own.

    Every episode loads its page anew, which leaves nothing of the one before (the tasks store
    nothing). A context of its own for each would cost more than the episode: its caches are empty.
    """

    def __init__(self, browser: Browser, served: str) -> None:
        """``served`` is where MiniWoB++'s pages are."""
        self._browser = browser
        self._served = served
        self._open = AsyncExitStack()
        self._computer: PlaywrightComputer | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self._open.aclose()

    async def play(self, player: Player, job: Job, max_turns: int | None) -> Episode:
        """Play one episode; what the machinery breaks off is played again, ATTEMPTS times in all.

        Raises InvalidRequest for an unknown task, BrowserFailed when the browser is gone, and what
        the player raises.
        """
        scenario = load_scenario(f"miniwob/{job.task}", job.seed)
        attempts = 0
        while True:
            attempts += 1
            begun = time.perf_counter()
            played = await self._attempt(player, job, scenario, max_turns or scenario.max_turns)
            if played.end == "error" or (self._computer and self._computer.tabs != 1):
                await self._close()
            if played.end != "error" or attempts == ATTEMPTS:
                break
        seconds = round(time.perf_counter() - begun, 3)
        fields = job.model_dump() | played.model_dump()
        return Episode(**fields, attempts=attempts, seconds=seconds)

    async def _attempt(
        self, player: Player, job: Job, scenario: Scenario, max_turns: int
    ) -> Played:
        try:
            if self._computer is None:
                self._computer = await self._open.enter_async_context(
                    open_for(self._browser, scenario, self._served)
                )
            stage = await set_stage(self._computer, scenario, self._served)
            return await player(stage, job, max_turns)
        except BrowserFailed as error:
            if not self._browser.is_connected():
                raise
            return broken_off(error)

    async def _close(self) -> None:
        self._computer = None
        await self._open.aclose()
