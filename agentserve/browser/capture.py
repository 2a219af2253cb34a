"""The picture of a page."""

from __future__ import annotations

import asyncio
import io

from PIL import Image
from playwright.async_api import Page

from agentserve.browser.settle import QUIET_S
from agentserve.core.screens import Size

SCREENSHOT_TIMEOUT_S = 30.0

_HAS_CANVAS = """() => [...document.querySelectorAll('canvas, video')].some(element => {
  const box = element.getBoundingClientRect();
  return box.width > 0 && box.height > 0 && box.right > 0 && box.bottom > 0
    && box.left < innerWidth && box.top < innerHeight;
})"""


async def capture_still(page: Page, timeout_s: float) -> bytes:
    """PNG of a page that rests, in device px. What is drawn on a canvas changes no DOM: where one
    is in view, two pictures must agree (charts draw themselves up), for at most ``timeout_s``.

    Raises Playwright's errors.
    """
    png = await _capture(page)
    if await page.evaluate(_HAS_CANVAS):
        deadline = asyncio.get_running_loop().time() + timeout_s
        while asyncio.get_running_loop().time() < deadline:
            await asyncio.sleep(QUIET_S)
            before, png = png, await _capture(page)
            if png == before:
                break
    return png


async def _capture(page: Page) -> bytes:
    return await page.screenshot(
        animations="disabled",
        caret="initial",  # it is hidden already: determinism.py
        scale="device",
        timeout=SCREENSHOT_TIMEOUT_S * 1000,
    )


def resize_png(png: bytes, size: Size) -> bytes:
    """The picture in another size; the very same bytes when it has that size already."""
    with Image.open(io.BytesIO(png)) as image:
        if image.size == (size.width, size.height):
            return png
        resized = image.convert("RGB").resize((size.width, size.height), Image.Resampling.LANCZOS)
    return _png(resized)


def _png(image: Image.Image) -> bytes:
    out = io.BytesIO()
    image.save(out, format="PNG")
    return out.getvalue()
