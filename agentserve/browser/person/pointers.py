"""Where a person's mouse pointer is on each page, and when it has come to rest."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from playwright.async_api import Page

from agentserve.core.runs import Pointer

REST_S = 0.3
"""A pointer that has not moved for so long may have something unfold under it."""


class Pointers:
    """Calls ``on_rest`` each time a pointer that has moved rests."""

    def __init__(self, on_rest: Callable[[], None]) -> None:
        self._on_rest = on_rest
        self._at: dict[Page, Pointer | None] = {}
        self._timer: asyncio.TimerHandle | None = None

    def on(self, page: Page) -> Pointer | None:
        """None: nothing is known of it."""
        return self._at.get(page)

    def moved(self, page: Page, at: Pointer | None) -> None:
        self._at[page] = at
        if self._timer is not None:
            self._timer.cancel()
        self._timer = asyncio.get_running_loop().call_later(REST_S, self._on_rest)

    def closed(self, page: Page) -> None:
        self._at.pop(page, None)
