"""When a page has come to rest: loaded, no request under way, and a DOM that stays as it is."""

from __future__ import annotations

import asyncio

from playwright.async_api import BrowserContext, Page, Request
from playwright.async_api import Error as PlaywrightError

QUIET_S = 0.1
"""How long nothing may happen before a page counts as settled."""
_POLL_S = 0.02
_STREAMS = ("eventsource", "websocket", "media")
"""Kinds of requests that stay open for good."""

# Resolves once fonts are loaded and nothing has changed in the document for `quiet` ms, two frames
# later: what the last change did is painted by then. Observing changes nothing in the page.
_DOM_QUIET = """quiet => document.fonts.ready.then(() => new Promise(resolve => {
  const painted = () => requestAnimationFrame(() => requestAnimationFrame(end));
  const end = () => { observer.disconnect(); resolve(); };
  let timer = setTimeout(painted, quiet);
  const observer = new MutationObserver(() => {
    clearTimeout(timer);
    timer = setTimeout(painted, quiet);
  });
  observer.observe(document,
    {subtree: true, childList: true, attributes: true, characterData: true});
}))"""


class Settler:
    """Follows the requests of a browser context and waits for its pages.

    Requests are counted per context: a link that opens a new tab shows as a request before
    Playwright tells of the tab.
    """

    def __init__(self, context: BrowserContext, timeout_s: float) -> None:
        self.timeout_s = timeout_s
        self._pending: set[Request] = set()
        self._endless: set[Request] = set()
        self._last_traffic = 0.0
        self._resting = False
        context.on("request", self._begun)
        context.on("requestfinished", self._over)
        context.on("requestfailed", self._over)

    def disturbed(self) -> None:
        """Something was done to a page: it must be waited for again."""
        self._resting = False

    async def settle(self, page: Page) -> bool:
        """Wait until the page rests. False when it did not within the timeout.

        A page that rested and was not disturbed since is not waited for again.
        """
        if self._resting and not self._pending - self._endless:
            return True
        try:
            async with asyncio.timeout(self.timeout_s):
                await self._rest(page)
        except TimeoutError:
            # Long polls would hold up every turn: what never ended is not waited for again.
            self._endless |= self._pending
            return False
        self._resting = True
        return True

    async def _rest(self, page: Page) -> None:
        while not page.is_closed():
            try:
                await page.wait_for_load_state("load", timeout=0)
                await page.evaluate(_DOM_QUIET, QUIET_S * 1000)
            except PlaywrightError:
                await asyncio.sleep(_POLL_S)  # the document was replaced meanwhile, or is dead
                continue
            if self._network_quiet():
                return
            await asyncio.sleep(_POLL_S)

    def _network_quiet(self) -> bool:
        now = asyncio.get_running_loop().time()
        return not self._pending - self._endless and now - self._last_traffic >= QUIET_S

    def _begun(self, request: Request) -> None:
        if request.resource_type not in _STREAMS:
            self._pending.add(request)
            self._traffic()

    def _over(self, request: Request) -> None:
        self._pending.discard(request)
        self._endless.discard(request)
        self._traffic()

    def _traffic(self) -> None:
        self._last_traffic = asyncio.get_running_loop().time()
        self._resting = False
