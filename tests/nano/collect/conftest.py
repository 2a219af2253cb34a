"""A real Chromium, and a page that holds what a test writes, with the collector's scripts in it."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest
from playwright.async_api import Browser

from agentserve.browser.launch import launch_browser
from agentserve.nano.collect.points import SCALE, VIEWPORT
from agentserve.nano.collect.scripts import solo_script

Seen = dict[str, Any]


@pytest.fixture(scope="session")
async def browser() -> AsyncIterator[Browser]:
    async with launch_browser() as running:
        yield running


@pytest.fixture(scope="session")
async def see(browser: Browser) -> AsyncIterator[Callable[[str], Awaitable[Seen]]]:
    """What agentserveScreen says of a page with this body."""
    context = await browser.new_context(
        viewport={"width": VIEWPORT.width, "height": VIEWPORT.height}, device_scale_factor=SCALE
    )
    await context.add_init_script(solo_script())
    page = await context.new_page()

    async def look(body: str) -> Seen:
        await page.goto("about:blank")
        await page.set_content(f"<style>body {{ margin: 0; font: 10px Arial }}</style>{body}")
        return json.loads(await page.evaluate("() => JSON.stringify(agentserveScreen())"))

    yield look
    await context.close()
