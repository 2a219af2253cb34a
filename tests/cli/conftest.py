"""One Chromium for the tests of commands that record."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from playwright.async_api import Browser

from agentserve.browser.launch import launch_browser


@pytest.fixture(scope="session")
async def browser() -> AsyncIterator[Browser]:
    async with launch_browser() as running:
        yield running
