"""What a person did with the browser itself, by what became of a tab's history."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from playwright.async_api import CDPSession

from agentserve.core.actions import Back, Navigate
from agentserve.core.actions.recorded import Forward, Reload

_TYPED = {"typed", "generated", "keyword", "keyword_generated", "auto_bookmark", "start_page"}
"""Chromium's words for going to an address without a page's doing."""


@dataclass(frozen=True)
class History:
    """A tab's history at one moment: ids and the address of the entry that is shown."""

    ids: tuple[int, ...]
    index: int
    url: str
    transition: str

    @classmethod
    async def of(cls, session: CDPSession) -> History:
        """Raises Playwright's errors."""
        history: dict[str, Any] = await session.send("Page.getNavigationHistory")
        entry = history["entries"][history["currentIndex"]]
        ids = tuple(each["id"] for each in history["entries"])
        return cls(ids, history["currentIndex"], entry["url"], entry["transitionType"])

    @property
    def id(self) -> int:
        return self.ids[self.index]


def journey(before: History, after: History) -> Navigate | Back | Forward | Reload | None:
    """The act of a person between two moments; None when a page has done it, or nothing. Pure.

    That a page goes back by itself cannot be told from here.
    """
    if after.id == before.id:
        return Reload() if after.transition == "reload" else None
    if after.id in before.ids:
        return Back() if after.index < before.index else Forward()
    if after.transition in _TYPED:
        return Navigate(url=after.url[:2000])
    return None
