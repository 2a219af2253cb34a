"""Opening a page that was written, and seeing that it keeps to itself."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from playwright.async_api import Browser, Page

ATTACK = (
    "</script><script>window.owned=1</script><img src=x onerror='window.owned=2'>"
    "<!--<script>{{script}}{{data}}\"'&amp;\u2028</style><svg onload=window.owned=3>"
)


@asynccontextmanager
async def opened(browser: Browser, path: Path, **options: Any) -> AsyncIterator[Page]:
    """The page in Chromium. Leaving it asserts that nothing was logged and nothing fetched."""
    context = await browser.new_context(**{"viewport": {"width": 1280, "height": 900}, **options})
    complaints: list[str] = []
    fetched: list[str] = []
    try:
        page = await context.new_page()
        page.on("console", lambda message: complaints.append(message.text))
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("request", lambda request: fetched.append(request.url))
        await page.goto(path.as_uri())
        yield page
        assert complaints == []
        assert {url.split(":")[0] for url in fetched[1:]} <= {"data"}
    finally:
        await context.close()


async def texts(page: Page, selector: str) -> list[str]:
    return [text.strip() for text in await page.locator(selector).all_inner_texts()]
