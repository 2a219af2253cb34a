"""Scripts of ours beside a page's own: they see its document, it sees neither them nor their names.

A page may have replaced every function there is in JavaScript. In an isolated world of the browser
they are as they came, so that the bounds that a script sets itself hold.
"""

from __future__ import annotations

import asyncio
import json
from typing import Any

from playwright.async_api import BrowserContext, CDPSession, Page
from playwright.async_api import Error as PlaywrightError

WORLD = "agentserve"
TIMEOUT_S = 2.0
_BETWEEN = "Not attached to an active page"
"""Chromium's answer while a tab goes from one document to the next."""
_ASKED_EVERY_S = 0.02


class Worlds:
    """One isolated world for each page of a context."""

    def __init__(self, context: BrowserContext) -> None:
        self._context = context
        self._sessions: dict[Page, CDPSession] = {}

    async def session(self, page: Page) -> CDPSession:
        """The DevTools session of a page, for as long as it is open."""
        session = self._sessions.get(page)
        if session is None:
            session = self._sessions[page] = await self._context.new_cdp_session(page)
            page.on("close", lambda: self._sessions.pop(page, None))
        return session

    async def ask(self, page: Page, method: str, **parameters: Any) -> Any:
        """The answer of the page's DevTools. For a moment a tab has no page, the old one away and
        the new one not yet there: that is waited for, TIMEOUT_S at most.

        Raises Playwright's Error.
        """
        session = await self.session(page)
        clock = asyncio.get_running_loop().time
        given_up_at = clock() + TIMEOUT_S
        while True:
            try:
                return await session.send(method, parameters)
            except PlaywrightError as error:
                if _BETWEEN not in error.message or clock() > given_up_at:
                    raise
            await asyncio.sleep(_ASKED_EVERY_S)

    async def call(self, page: Page, function: str, *arguments: Any) -> Any:
        """The value of a JavaScript function of ours on the page's main document.

        Raises Playwright's Error when there is no document or the script failed or took too long,
        TimeoutError when the page does not answer at all.
        """
        async with asyncio.timeout(2 * TIMEOUT_S):
            tree = await self.ask(page, "Page.getFrameTree")
            frame = tree["frameTree"]["frame"]["id"]
            world = await self.ask(page, "Page.createIsolatedWorld", frameId=frame, worldName=WORLD)
            given = ", ".join(json.dumps(argument) for argument in arguments)
            answer = await self.ask(
                page,
                "Runtime.evaluate",
                expression=f"({function})({given})",
                contextId=world["executionContextId"],
                returnByValue=True,
                timeout=TIMEOUT_S * 1000,
            )
        if "exceptionDetails" in answer:
            raise PlaywrightError(f"a script failed: {answer['exceptionDetails'].get('text')}")
        return answer["result"].get("value")
