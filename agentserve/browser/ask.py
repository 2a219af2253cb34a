"""Asks a page for a value, whatever it is just doing."""

from __future__ import annotations

import asyncio
from typing import Any

from playwright.async_api import Error as PlaywrightError
from playwright.async_api import Page

from agentserve.core.errors import BrowserFailed

_TIMEOUT_S = 5.0
_POLL_S = 0.05
_REPLACED = ("context was destroyed", "Cannot find context", "navigating")
"""Playwright's words for a document that gave way to another while it was asked."""


async def ask(page: Page, function: str) -> Any:
    """The value of a JavaScript function in the page, or in the one that is replacing it.

    Raises BrowserFailed when the page does not answer, Playwright's Error when the script throws.
    """
    try:
        async with asyncio.timeout(_TIMEOUT_S):
            while True:
                try:
                    return await page.evaluate(function)
                except PlaywrightError as error:
                    if not any(words in error.message for words in _REPLACED):
                        raise
                await asyncio.sleep(_POLL_S)
    except TimeoutError as error:
        raise BrowserFailed(f"the page {page.url[:200]} does not answer") from error
