"""Fills a folder with shards: pages at work side by side, each with blocks of seeds of its own."""

from __future__ import annotations

import asyncio
import itertools
import random
import time
from collections.abc import Iterator

from playwright.async_api import Browser
from playwright.async_api import Error as PlaywrightError

from agentserve.browser.launch import launch_browser
from agentserve.core.errors import BrowserFailed
from agentserve.nano.collect.grid import open_grid
from agentserve.nano.collect.plan import Plan, Progress, Summary, deal_tasks, seed_range
from agentserve.nano.collect.shards import ShardWriter, next_seed
from agentserve.nano.collect.solo import Episode, open_solo
from agentserve.nano.collect.style import font_families, style_sheet

COLUMNS, ROWS = 4, 3
"""Of a grid. Larger ones are slower: a hit test looks at every frame of its page."""
TILES = COLUMNS * ROWS
ROUNDS = 64
"""Rounds of a grid in a shard; then tasks are dealt anew."""
EPISODES = 200
"""Episodes in a shard."""


async def collect(plan: Plan, progress: Progress, summary: Summary) -> None:
    """Collect into ``plan.out``; ``summary`` is filled on the way.

    When it is cancelled, shards in the making are published as far as they are. Raises
    BrowserFailed, InvalidRequest, OSError.
    """
    low, high = seed_range(plan.seed, plan.mode)
    start = time.monotonic()
    fill, block = (_fill_grid, ROUNDS * TILES) if plan.mode == "grid" else (_fill_solo, EPISODES)
    blocks = itertools.count(next_seed(plan.out, plan.mode, low, high), block)
    try:
        async with launch_browser() as browser, asyncio.TaskGroup() as group:
            for _ in range(plan.pages):
                group.create_task(fill(plan, browser, blocks, progress, summary))
    except* PlaywrightError as errors:
        words = str(errors.exceptions[0]).splitlines()[0]
        raise BrowserFailed(f"collecting failed: {words}") from errors
    finally:
        summary.seconds = time.monotonic() - start


async def _fill_grid(
    plan: Plan, browser: Browser, blocks: Iterator[int], progress: Progress, summary: Summary
) -> None:
    """One page of tiles; makes one shard of each block of seeds."""
    async with open_grid(browser, columns=COLUMNS, rows=ROWS, augment=plan.augment) as grid:
        while summary.screens < plan.screens:
            seed = next(blocks)
            tasks = deal_tasks(plan.tasks, TILES, plan.words_share, random.Random(seed))
            await grid.deal(tasks)
            shard = ShardWriter(plan.out, "grid", seed)
            try:
                for _ in range(ROUNDS):
                    for record, png in await grid.round(seed):
                        shard.add(record, png)
                        summary.add(record)
                    seed += TILES
                    progress(summary.screens)
                    if summary.screens >= plan.screens:
                        break
            finally:
                _publish(shard, seed, summary)
                summary.failures |= grid.failures


async def _fill_solo(
    plan: Plan, browser: Browser, blocks: Iterator[int], progress: Progress, summary: Summary
) -> None:
    """One computer that plays; makes one shard of each block of seeds."""
    async with open_solo(browser) as solo:
        while summary.screens < plan.screens:
            first = seed = next(blocks)
            shard = ShardWriter(plan.out, "solo", first)
            try:
                for seed in range(first, first + EPISODES):
                    if summary.screens >= plan.screens:
                        break
                    task = plan.tasks[seed % len(plan.tasks)]
                    chance = random.Random(seed)
                    styled = chance.random() < plan.augment
                    css = style_sheet(chance, font_families()) if styled else ""
                    try:
                        episode = await solo.play(task, seed, css)
                    except PlaywrightError as error:
                        episode = Episode((), False, error.message.splitlines()[0])
                    _keep(episode, task, shard, summary)
                    progress(summary.screens)
                else:
                    seed = first + EPISODES
            finally:
                _publish(shard, seed, summary)


def _keep(episode: Episode, task: str, shard: ShardWriter, summary: Summary) -> None:
    if not episode.solved:
        summary.unsolved[task] += 1
        summary.failures[task] = episode.why
        return
    summary.episodes[task] += 1
    for record, png in episode.screens:
        shard.add(record, png)
        summary.add(record)


def _publish(shard: ShardWriter, end: int, summary: Summary) -> None:
    path = shard.finish(end)
    if path:
        summary.shards.append(path.name)
