"""Starts Chromium so that the same page gives the same pixels, and always stops it again."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from urllib.parse import urlsplit

from playwright.async_api import Browser, async_playwright
from playwright.async_api import Error as PlaywrightError

from agentserve.browser.policy import origin_of
from agentserve.core.config import chromium_path
from agentserve.core.errors import BrowserFailed, InvalidRequest

LAUNCH_TIMEOUT_S = 60.0
_DISPLAYS = ("DISPLAY", "WAYLAND_DISPLAY")
_LOOPBACK = ("127.0.0.1", "localhost", "::1")

FLAGS = (
    "--disable-gpu",
    # nothing but the page talks to the network
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-quic",
    "--disable-sync",
    "--no-first-run",
    # one way to draw text and to scroll, on every machine
    "--disable-lcd-text",
    "--disable-smooth-scrolling",
    "--font-render-hinting=none",
    "--force-color-profile=srgb",
    "--hide-scrollbars",
)


@asynccontextmanager
async def launch_browser(*, headed: bool = False) -> AsyncIterator[Browser]:
    """One Chromium, for any number of computers. It is gone when the block is left, however that
    happens.

    Uses the CHROMIUM of the environment, else Debian's, else Playwright's own. Raises
    BrowserFailed when none of them starts, and for a window where there is no display.
    """
    path = find_chromium()
    if headed and sys.platform == "linux" and not any(map(os.environ.get, _DISPLAYS)):
        raise BrowserFailed(
            "there is no display for a browser's window: DISPLAY is not set",
            hint="set it (Xvfb makes a display where there is none), or go without a window: "
            "leave out --headed, or give `agentserve record` --headless",
        )
    async with async_playwright() as playwright:
        try:
            browser = await playwright.chromium.launch(
                executable_path=path,
                headless=not headed,
                args=list(FLAGS),
                # Chromium has no sandbox for root; any other user keeps it: pages are hostile
                chromium_sandbox=os.geteuid() != 0,
                timeout=LAUNCH_TIMEOUT_S * 1000,
                # Signals are the program's: a run ends its recording before its browser goes.
                handle_sigint=False,
                handle_sigterm=False,
                handle_sighup=False,
            )
        except PlaywrightError as error:
            raise BrowserFailed(
                f"Chromium did not start: {error.message.splitlines()[0]}",
                hint="install it (apt-get install chromium, or playwright install chromium), or "
                "set CHROMIUM to one",
            ) from error
        try:
            yield browser
        finally:
            with suppress(PlaywrightError):  # already gone
                await asyncio.shield(asyncio.ensure_future(browser.close()))


@asynccontextmanager
async def connect_browser(endpoint: str) -> AsyncIterator[Browser]:
    """A Chromium that runs already, with ``--remote-debugging-port``, on this machine; it goes on
    running. Its tabs and its profile are left alone: computers have contexts of their own.

    Raises InvalidRequest for an address that is not this machine's (who listens there can do
    anything to the browser, and no password protects it), BrowserFailed when nothing answers.
    """
    origin = origin_of(endpoint)
    if urlsplit(origin).hostname not in _LOOPBACK:
        raise InvalidRequest(
            f"{origin} is not on this machine",
            hint="forward its port: ssh -L 9222:127.0.0.1:9222 HOST",
        )
    async with async_playwright() as playwright:
        try:
            browser = await playwright.chromium.connect_over_cdp(
                origin, timeout=LAUNCH_TIMEOUT_S * 1000
            )
        except PlaywrightError as error:
            raise BrowserFailed(
                f"no browser answers at {origin}: {error.message.splitlines()[0]}",
                hint="start one with --remote-debugging-port=9222",
            ) from error
        try:
            yield browser
        finally:
            with suppress(PlaywrightError):  # already gone
                await asyncio.shield(asyncio.ensure_future(browser.close()))


def find_chromium() -> Path | None:
    """The CHROMIUM of the environment, else Debian's; None: Playwright's own."""
    debian = Path("/usr/bin/chromium")
    return chromium_path() or (debian if debian.exists() else None)
