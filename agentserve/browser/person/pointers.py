"""Where a person's mouse pointer is on each page, and when it has come to rest."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from playwright.async_api import Error as PlaywrightError
from playwright.async_api import Page
from pydantic import TypeAdapter, ValidationError

from agentserve.browser.worlds import Worlds
from agentserve.core.runs import Pointer

REST_S = 0.3
"""A pointer that has not moved for so long may have something unfold under it."""


# A point at which the same elements are under the pointer as now; null when none is found.
_HOVERED = """() => {
  const hovered = [...document.querySelectorAll(':hover')].pop(), parts = 8;
  if (!hovered) return 'outside';
  const box = hovered.getBoundingClientRect();
  for (let i = 0; i < parts * parts; i++) {
    const x = Math.floor(box.left + ((i % parts) + 0.5) / parts * box.width);
    const y = Math.floor(box.top + (Math.floor(i / parts) + 0.5) / parts * box.height);
    if (x >= 0 && y >= 0 && document.elementFromPoint(x, y) === hovered) return [x, y];
  }
  return null;
}"""
_POINTER: TypeAdapter[Pointer | None] = TypeAdapter(Pointer | None)


async def hovered(worlds: Worlds, page: Page) -> Pointer | None:
    """A place of the pointer that has the same under it as the real one, which nobody told: a
    window may open under one that rests. None: who knows."""
    try:
        return _POINTER.validate_python(await worlds.call(page, _HOVERED))
    except (PlaywrightError, TimeoutError, ValidationError):
        return None


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
