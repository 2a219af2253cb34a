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

    async def call(self, page: Page, function: str, *arguments: Any) -> Any:
        """The value of a JavaScript function of ours on the page's main document.

        Raises Playwright's Error when there is no document or the script failed or took too long,
        TimeoutError when the page does not answer at all.
        """
        async with asyncio.timeout(2 * TIMEOUT_S):
            session = await self.session(page)
            tree = await session.send("Page.getFrameTree")
            world = await session.send(
                "Page.createIsolatedWorld",
                {"frameId": tree["frameTree"]["frame"]["id"], "worldName": WORLD},
            )
            given = ", ".join(json.dumps(argument) for argument in arguments)
            answer = await session.send(
                "Runtime.evaluate",
                {
                    "expression": f"({function})({given})",
                    "contextId": world["executionContextId"],
                    "returnByValue": True,
                    "timeout": TIMEOUT_S * 1000,
                },
            )
        if "exceptionDetails" in answer:
            raise PlaywrightError(f"a script failed: {answer['exceptionDetails'].get('text')}")
        return answer["result"].get("value")
