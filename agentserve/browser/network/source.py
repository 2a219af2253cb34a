"""What a computer lets its network be handled by."""

from __future__ import annotations

from typing import Protocol

from playwright.async_api import BrowserContext

from agentserve.core.runs import NetworkNote


class Network(Protocol):
    """One for each browser context."""

    async def attach(self, context: BrowserContext, start_url: str) -> None:
        """Before the context has pages; the first will be ``start_url``. Raises Playwright's
        errors."""
        ...

    async def take_notes(self, wait_s: float = 0.0) -> list[NetworkNote]:
        """What was not as recorded since the last call, once all that has ended is judged. With
        ``wait_s`` open requests are waited for so long, and those without an answer are noted."""
        ...
