"""Hears what a person does on the pages of a context: the script beside each, and their tabs."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from pathlib import Path

from playwright.async_api import CDPSession, Page
from playwright.async_api import Error as PlaywrightError
from pydantic import ValidationError

from agentserve.browser.person.messages import MAX_BYTES, MESSAGE, Message
from agentserve.browser.worlds import Worlds

WORLD = "agentserve-person"
BINDING = "agentserveTell"
MAX_A_SECOND = 200
"""Messages of one page; a person does not get there."""

_SCRIPTS = Path(__file__).parents[1] / "scripts"
_SOURCE = "({person})({element_at}, message => {binding}(JSON.stringify(message)))".format(
    person=(_SCRIPTS / "person.js").read_text(encoding="utf-8").strip(),
    element_at=(_SCRIPTS / "element_at.js").read_text(encoding="utf-8").strip(),
    binding=BINDING,
)

Hear = Callable[[Page, Message], None]


class Ears:
    """Calls ``hear`` with each message of a page that is one."""

    def __init__(self, worlds: Worlds, hear: Hear) -> None:
        self._worlds = worlds
        self._hear = hear
        self._times: dict[Page, deque[float]] = {}
        self.refused = 0
        """Messages that were none, or too many."""

    async def listen(self, page: Page) -> None:
        """From now on, also in the document that is there. Raises Playwright's errors."""
        session: CDPSession = await self._worlds.session(page)
        session.on("Runtime.bindingCalled", lambda event: self._called(page, event))
        self._times[page] = deque(maxlen=MAX_A_SECOND)
        page.on("close", lambda: self._times.pop(page, None))
        try:
            await session.send("Runtime.enable")
            await session.send(
                "Runtime.addBinding", {"name": BINDING, "executionContextName": WORLD}
            )
            await session.send("Page.enable")
            await session.send(
                "Page.addScriptToEvaluateOnNewDocument",
                {"source": _SOURCE, "worldName": WORLD, "runImmediately": True},
            )
        except PlaywrightError:
            if not page.is_closed():
                raise

    def _called(self, page: Page, event: dict[str, str]) -> None:
        """The page's process is not trusted, though the page itself cannot call this."""
        if event.get("name") != BINDING:
            return
        payload = event.get("payload", "")
        try:
            if len(payload) > MAX_BYTES or self._too_many(page):
                raise ValueError("over a limit")
            message = MESSAGE.validate_json(payload)
        except (ValidationError, ValueError):
            self.refused += 1
            return
        self._hear(page, message)

    def _too_many(self, page: Page) -> bool:
        now, times = asyncio.get_running_loop().time(), self._times.get(page)
        if times is None:
            return False
        if len(times) == times.maxlen and now - times[0] < 1.0:
            return True
        times.append(now)
        return False
