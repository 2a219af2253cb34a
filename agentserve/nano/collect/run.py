"""Fills a folder with shards: pages at work side by side, each with blocks of seeds of its own."""

from __future__ import annotations

import asyncio
import random
import time

from playwright.async_api import Browser
from playwright.async_api import Error as PlaywrightError

from agentserve.browser.launch import launch_browser
from agentserve.core.errors import BrowserFailed
from agentserve.nano.collect.grid import open_grid
from agentserve.nano.collect.plan import Plan, Progress, Summary, deal_tasks, seed_range
from agentserve.nano.collect.shards import ShardWriter, claim_shard
from agentserve.nano.collect.solo import Episode, Solo, open_solo
from agentserve.nano.collect.style import font_families, style_sheet

ROUNDS = 64
"""Rounds of a grid in a shard; then tasks are dealt anew."""
EPISODES = 160
"""Episodes in a shard."""
IN_A_ROW = 8
"""Episodes of one task before the next task's page is loaded."""


async def collect(plan: Plan, progress: Progress, summary: Summary) -> None:
    """Collect into ``plan.out``; ``summary`` is filled on the way.

    When it is cancelled, shards in the making are published as far as they are. Raises
    BrowserFailed, InvalidRequest, OSError.
    """
    start = time.monotonic()
    fill = _fill_grid if plan.mode == "grid" else _fill_solo
    try:
        async with launch_browser() as browser, asyncio.TaskGroup() as group:
            for _ in range(plan.pages):
                group.create_task(fill(plan, browser, progress, summary))
    except ExceptionGroup as errors:
        first = errors.exceptions[0]
        if isinstance(first, PlaywrightError):
            raise BrowserFailed(f"collecting failed: {first.message.splitlines()[0]}") from errors
        raise first from errors
    finally:
        summary.seconds = time.monotonic() - start


async def _fill_grid(plan: Plan, browser: Browser, progress: Progress, summary: Summary) -> None:
    """One page of tiles; makes one shard of each block of seeds."""
    async with open_grid(browser, augment=plan.augment) as grid:
        while summary.screens < plan.screens:
            shard, seed = _claim(plan, ROUNDS * len(grid))
            try:
                tasks = deal_tasks(plan.tasks, len(grid), plan.words_share, random.Random(seed))
                await grid.deal(tasks)
                for _ in range(ROUNDS):
                    for record, png in await grid.round(seed):
                        shard.add(record, png)
                        summary.add(record)
                    seed += len(grid)
                    progress(summary.screens)
                    if not summary.screens:
                        raise BrowserFailed(f"no task can be started: {grid.failures}")
                    if summary.screens >= plan.screens:
                        break
            finally:
                _publish(shard, seed, summary)
                summary.failures |= grid.failures


async def _fill_solo(plan: Plan, browser: Browser, progress: Progress, summary: Summary) -> None:
    """One computer that plays; makes one shard of each block of seeds."""
    async with open_solo(browser) as solo:
        while summary.screens < plan.screens:
            shard, seed = _claim(plan, EPISODES)
            end = seed + EPISODES
            try:
                while seed < end and summary.screens < plan.screens:
                    task = plan.tasks[seed // IN_A_ROW % len(plan.tasks)]
                    _keep(await _play(solo, task, seed, plan.augment), task, shard, summary)
                    seed += 1
                    progress(summary.screens)
                    _check_any(summary)
            finally:
                _publish(shard, seed, summary)


async def _play(solo: Solo, task: str, seed: int, augment: float) -> Episode:
    chance = random.Random(seed)
    styled = chance.random() < augment
    css = style_sheet(chance, font_families()) if styled else ""
    try:
        return await solo.play(task, seed, css)
    except PlaywrightError as error:
        return Episode((), False, error.message.splitlines()[0])


def _claim(plan: Plan, block: int) -> tuple[ShardWriter, int]:
    return claim_shard(plan.out, plan.mode, seed_range(plan.seed, plan.mode)[0], block)


def _keep(episode: Episode, task: str, shard: ShardWriter, summary: Summary) -> None:
    if not episode.solved:
        summary.unsolved[task] += 1
        summary.failures[task] = episode.why
        return
    summary.episodes[task] += 1
    for record, png in episode.screens:
        shard.add(record, png)
        summary.add(record)


def _check_any(summary: Summary) -> None:
    """Raises BrowserFailed when nothing ever comes of it."""
    if not summary.episodes and summary.unsolved.total() >= EPISODES:
        raise BrowserFailed(
            f"none of {EPISODES} episodes was solved: {dict(list(summary.failures.items())[:3])}"
        )


def _publish(shard: ShardWriter, end: int, summary: Summary) -> None:
    path = shard.finish(end)
    if path:
        summary.shards.append(path.name)
