"""One Chromium, and what the installed Playwright records with it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from replay.playwright_made import PAGES, make_codegen, make_trace

from agentserve.browser.launch import launch_browser
from agentserve.browser.pages import serve_pages


class Made:
    """Files of Playwright, and the address they are of."""

    def __init__(self, base: str, trace: Path, codegen: Path) -> None:
        self.base = base
        self.trace = trace
        self.codegen = codegen


@pytest.fixture(scope="session")
async def made(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Made]:
    folder = tmp_path_factory.mktemp("playwright")
    async with serve_pages(PAGES) as base, launch_browser() as browser:
        files = Made(base, folder / "made.zip", folder / "made.jsonl")
        await make_trace(browser, base, files.trace)
        await make_codegen(browser, base, files.codegen)
        yield files
