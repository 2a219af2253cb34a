"""First screens of single tasks, many at a time: a page of tiles, one picture a round.

    async with open_grid(browser) as grid:
        await grid.deal(["click-test", "words", …])      # one a tile
        screens = await grid.round(first_seed)           # [(record, png), …], one a tile

Every tile shows, pixel for pixel, what the product's own computer shows of that task and seed (in
areas that scroll, letters may differ by a shade).
"""

from __future__ import annotations

import asyncio
import base64
import json
import random
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

from playwright.async_api import Browser, CDPSession, Page, Request

from agentserve.browser import miniwob
from agentserve.browser.computer import open_computer
from agentserve.browser.pages import serve_pages
from agentserve.core.screens import Size
from agentserve.nano.collect.points import SCALE, VIEWPORT, make_record
from agentserve.nano.collect.scripts import WORDS, tile_script
from agentserve.nano.collect.style import font_families, style_sheet
from agentserve.nano.collect.tiles import cut_tiles

PAGES = Path(__file__).parent / "pages"

Screen = tuple[dict[str, Any], bytes]
_LOAD_TIMEOUT_S = 5.0
_PICTURE = {"format": "png", "optimizeForSpeed": True}


class Grid:
    """A page of tiles; made by ``open_grid``."""

    def __init__(
        self, page: Page, cdp: CDPSession, columns: int, count: int, augment: float
    ) -> None:
        self._page = page
        self._cdp = cdp
        self._columns = columns
        self._count = count
        self._augment = augment
        self._traffic = _Traffic(page)
        self._tasks = [""] * count
        self.failures: dict[str, str] = {}
        """Of the tasks whose page or oracle failed: the last error."""

    def __len__(self) -> int:
        return self._count

    async def deal(self, tasks: Sequence[str]) -> None:
        """Show these tasks, one a tile; tiles that show theirs already are left alone.

        Raises Playwright's errors.
        """
        changed = [(index, task) for index, task in enumerate(tasks) if self._tasks[index] != task]
        await self._page.evaluate(
            "pages => loadTiles(pages)",
            [
                [index, "agentserve-words.html" if task == WORDS else f"miniwob/{task}.html"]
                for index, task in changed
            ],
        )
        for index, task in changed:
            self._tasks[index] = task
        # pictures that style sheets name are loaded when they are first shown
        await self._begin([(index, task, 0, "") for index, task in changed])

    async def round(self, first_seed: int) -> list[Screen]:
        """Start the next episode in every tile, with the seeds first_seed … first_seed + tiles - 1.

        A tile that fails is left out. Raises Playwright's errors.
        """
        jobs = []
        for index, task in enumerate(self._tasks):
            seed = first_seed + index
            chance = random.Random(seed)
            styled = chance.random() < self._augment
            jobs.append((index, task, seed, style_sheet(chance, font_families()) if styled else ""))
        told = await self._begin(jobs)
        picture = await self._cdp.send("Page.captureScreenshot", _PICTURE)
        png = base64.b64decode(picture["data"])
        tiles = await asyncio.to_thread(cut_tiles, png, self._columns, self._count)
        screens = []
        for (_, task, seed, css), answer, tile in zip(jobs, told, tiles, strict=True):
            if "problem" in answer:
                self.failures[task] = answer["problem"]
            if "words" not in answer:
                continue
            record = make_record(task, seed, answer)
            screens.append(({**record, "augmented": bool(css)}, tile))
        return screens

    async def _begin(self, jobs: Sequence[tuple[int, str, int, str]]) -> list[Any]:
        """What every tile tells of the episode that it starts, once its pictures are there."""
        told = json.loads(await self._page.evaluate("jobs => beginRound(jobs)", jobs))
        with suppress(TimeoutError):
            async with asyncio.timeout(_LOAD_TIMEOUT_S):
                await self._traffic.quiet()
        return told


class _Traffic:
    """The requests of a page that are under way."""

    def __init__(self, page: Page) -> None:
        self._pending: set[Request] = set()
        self._none = asyncio.Event()
        self._none.set()
        page.on("request", self._begun)
        page.on("requestfinished", self._over)
        page.on("requestfailed", self._over)

    async def quiet(self) -> None:
        await self._none.wait()

    def _begun(self, request: Request) -> None:
        self._pending.add(request)
        self._none.clear()

    def _over(self, request: Request) -> None:
        self._pending.discard(request)
        if not self._pending:
            self._none.set()


@asynccontextmanager
async def open_grid(
    browser: Browser, *, columns: int = 4, rows: int = 3, augment: float = 0.5
) -> AsyncIterator[Grid]:
    """A grid in a computer of its own; ``augment`` is the share of restyled screens.

    More tiles are no faster: hit tests, of which the scripts make many, look at all frames of a
    page. Raises BrowserFailed and InvalidRequest as open_computer and serve_pages do.
    """
    viewport = Size(width=VIEWPORT.width * columns, height=VIEWPORT.height * rows)
    async with serve_pages(miniwob.html_folder(), PAGES) as base:
        url = f"{base}/agentserve-grid.html"
        async with open_computer(
            browser, url, viewport=viewport, scale=SCALE, closed=True
        ) as computer:
            page = computer.page
            await page.context.add_init_script(tile_script())
            await page.goto(url, wait_until="load")
            await page.evaluate(f"layTiles({columns}, {columns * rows})")
            cdp = await page.context.new_cdp_session(page)
            # a session of one's own takes pictures by its own metrics, not by the context's
            await cdp.send(
                "Emulation.setDeviceMetricsOverride",
                {
                    "width": viewport.width,
                    "height": viewport.height,
                    "deviceScaleFactor": SCALE,
                    "mobile": False,
                },
            )
            yield Grid(page, cdp, columns, columns * rows, augment)
