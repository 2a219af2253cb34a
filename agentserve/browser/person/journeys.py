"""What a person did with the browser itself, by what became of a tab's history."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from playwright.async_api import Error as PlaywrightError
from playwright.async_api import Page

from agentserve.browser.worlds import Worlds
from agentserve.core.actions import Back, Navigate
from agentserve.core.actions.recorded import Forward, Reload

_TYPED = {"typed", "generated", "keyword", "keyword_generated", "auto_bookmark", "start_page"}
"""Chromium's words for going to an address without a page's doing."""
BEHIND_S = 2.0
"""A page tells of a new document before the browser has it in the tab's history: so long at most is
waited for that. A tab that is loaded a second time in a row shows no difference at all."""
ASKED_EVERY_S = 0.02

Journey = Navigate | Back | Forward | Reload


@dataclass(frozen=True)
class Entry:
    """One address of a history."""

    id: int
    url: str
    transition: str


@dataclass(frozen=True)
class History:
    """A tab's history at one moment, and which entry is shown."""

    entries: tuple[Entry, ...]
    index: int

    @classmethod
    async def of(cls, worlds: Worlds, page: Page) -> History:
        """Raises Playwright's errors."""
        history: dict[str, Any] = await worlds.ask(page, "Page.getNavigationHistory")
        entries = tuple(
            Entry(each["id"], each["url"], each["transitionType"]) for each in history["entries"]
        )
        return cls(entries, history["currentIndex"])

    @property
    def shown(self) -> Entry:
        return self.entries[self.index]


def journeys(before: History, after: History) -> list[Journey]:
    """The acts of a person between two moments; none when a page has done it, or nothing. Pure.

    That a page goes back by itself cannot be told from here.
    """
    if after.shown.id == before.shown.id:
        return [Reload()] if after.shown.transition == "reload" else []
    places = {entry.id: place for place, entry in enumerate(before.entries)}
    if after.shown.id in places:
        forward = places[after.shown.id] - before.index
        return [Back() if forward < 0 else Forward()] * abs(forward)
    return [
        Navigate(url=entry.url[:2000])
        for entry in after.entries[: after.index + 1]
        if entry.id not in places and entry.transition in _TYPED
    ]


Seen = TypeVar("Seen")


@dataclass(frozen=True)
class Move(Generic[Seen]):
    """A page's word that a tab shows something else."""

    url: str
    """Where it is now, with the fragment."""
    new_document: bool
    seen: Seen
    """Whatever the listener knew when it heard of it."""


@dataclass(frozen=True)
class Travel(Generic[Seen]):
    """What came of the moves that were told together."""

    before: Entry
    after: Entry
    journeys: list[Journey]
    new_document: bool
    seen: Seen
    """What was known at the first of them."""


class Travels(Generic[Seen]):
    """One tab's travels, one after the other.

    page         move ─┐   move ─┐      the browser's own word comes from another
    browser            ├─► commit └─► commit   process and may be later, so the history
    asked        before ... same, same, after     is asked until it has what the page told
    """

    def __init__(self, worlds: Worlds, page: Page, history: History) -> None:
        self._worlds = worlds
        self._page = page
        self.history = history
        """As it was when it was asked last."""
        self.frame = ""
        """The id of the tab's own frame: others in it tell of themselves as well."""
        self._moves: list[Move[Seen]] = []
        self._moved = asyncio.Event()

    def moved(self, move: Move[Seen]) -> None:
        """To be called with every word of the page. A page that moves all the time is no flood:
        what is not asked for yet is asked for together."""
        if len(self._moves) > 1:
            new_document = move.new_document or self._moves[-1].new_document
            move = Move(move.url, new_document, move.seen)
            self._moves.pop()
        self._moves.append(move)
        self._moved.set()

    @property
    def untold(self) -> bool:
        return bool(self._moves)

    async def next(self) -> Travel[Seen]:
        """The next one, for one caller at a time. Raises Playwright's errors."""
        await self._moved.wait()
        first, before = self._moves[0], self.history
        clock = asyncio.get_running_loop().time
        given_up_at = clock() + BEHIND_S
        while True:
            self._moved.clear()
            last = self._moves[-1]
            try:
                after = await History.of(self._worlds, self._page)
            except PlaywrightError:
                self._moves.clear()
                raise
            heard = self._moves[-1] is not last  # another one, while the history was asked for
            new_document = any(move.new_document for move in self._moves)
            there = after.shown.url == last.url and (after != before or not new_document)
            if (there and not heard) or clock() > given_up_at:
                break
            with suppress(TimeoutError):
                async with asyncio.timeout(ASKED_EVERY_S):
                    await self._moved.wait()
        self.history = after
        self._moves = self._moves[-1:] if heard else []
        told = journeys(before, after) if new_document or after.shown.id != before.shown.id else []
        return Travel(before.shown, after.shown, told, new_document, first.seen)
