"""A real Chromium and a server of the pages beside this file, shared by the tests."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import pytest
from playwright.async_api import Browser

from agentserve.browser.computer import PlaywrightComputer, open_computer
from agentserve.browser.launch import launch_browser
from agentserve.browser.pages import serve_pages
from agentserve.core.screens import Size

PAGES = Path(__file__).parent / "pages"
Opener = Callable[..., AbstractAsyncContextManager[PlaywrightComputer]]


@pytest.fixture(scope="session")
async def browser() -> AsyncIterator[Browser]:
    async with launch_browser() as running:
        yield running


@pytest.fixture(scope="session")
async def base() -> AsyncIterator[str]:
    """The address of the test pages."""
    async with serve_pages(PAGES) as url:
        yield url


@pytest.fixture
def open_page(browser: Browser, base: str) -> Opener:
    """Opens a computer on one of the test pages; load it with ``computer.load()``."""

    def opener(page: str, **options: Any) -> AbstractAsyncContextManager[PlaywrightComputer]:
        options.setdefault("viewport", Size(width=300, height=280))
        return open_computer(browser, f"{base}/{page}", **options)

    return opener
