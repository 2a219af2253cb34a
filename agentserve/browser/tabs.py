"""The tabs of one browser context, and everything a page does uncalled: dialogs, pop-ups,
downloads, crashes. What happened is noted in words for the model."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Coroutine
from dataclasses import dataclass
from typing import Any

from playwright.async_api import BrowserContext, Dialog, Download, FileChooser, Page, Route
from playwright.async_api import Error as PlaywrightError

from agentserve.browser.policy import NavigationPolicy
from agentserve.core.errors import BrowserFailed

MAX_TABS = 8
"""A page that opens more has them closed at once."""
_QUOTE_CHARS = 300


@dataclass(frozen=True)
class Note:
    """One thing that happened. ``failed`` when it stands against the action."""

    text: str
    failed: bool = False


def quote(text: str) -> str:
    """A page's text inside a sentence of ours: one line, quoted, of bounded length."""
    line = " ".join(text.split())
    return json.dumps(
        line if len(line) <= _QUOTE_CHARS else f"{line[:_QUOTE_CHARS]}…", ensure_ascii=False
    )


class Tabs:
    """The open tabs, the newest in front.

    ``closed`` also refuses everything else that a page fetches from outside the policy's origins:
    local scenarios then look alike with and without a network.
    """

    def __init__(self, context: BrowserContext, policy: NavigationPolicy, *, closed: bool) -> None:
        self._context = context
        self._policy = policy
        self._closed = closed
        self._pages: list[Page] = []
        self._opened: list[Page] = []
        self._crashed: set[Page] = set()
        self._notes: list[Note] = []
        self._tasks: set[asyncio.Task[None]] = set()

    async def open(self) -> None:
        """Start following the context and open its first tab."""
        self._context.on("page", self._on_page)
        await self._context.route(self._policy.outside, self._on_outside_request)
        await self._context.new_page()

    async def close(self) -> None:
        """Wait for the answers that are still under way."""
        await asyncio.gather(*self._tasks)

    @property
    def front(self) -> Page:
        """The tab in front. Raises BrowserFailed when it crashed or none is left."""
        if not self._pages:
            raise BrowserFailed(
                "no page is open any more: the browser is gone, or the page closed itself"
            )
        page = self._pages[-1]
        if page in self._crashed:
            raise BrowserFailed(f"the page {page.url[:200]} crashed")
        return page

    def __len__(self) -> int:
        return len(self._pages)

    def bring(self, index: int) -> bool:
        """Count the tab that was opened as that one, from 0, as the one in front. False: it is not
        there."""
        page = self._opened[index] if index < len(self._opened) else None
        if page not in self._pages:
            return False
        self._pages.remove(page)
        self._pages.append(page)
        return True

    def note(self, text: str, *, failed: bool = False) -> None:
        self._notes.append(Note(text, failed))

    def take_notes(self) -> list[Note]:
        notes, self._notes = self._notes, []
        return notes

    async def leave_outside(self, start_url: str) -> None:
        """Leave pages that a redirect has brought outside of the policy, before anyone sees them.

        Redirects are not offered for interception, so that their request has been sent.
        """
        while not self._policy.allows(self.front.url):
            page = self.front
            self.refuse(page.url)
            if len(self) > 1:
                await page.close()
                self._forget(page)
            else:
                await page.goto(start_url, wait_until="commit")
                return

    def _on_page(self, page: Page) -> None:
        page.on("dialog", lambda dialog: self._spawn(self._answer(dialog)))
        page.on("download", self._on_download)
        page.on("filechooser", self._on_file_chooser)
        page.on("crash", self._on_crash)
        page.on("close", self._forget)
        if len(self._pages) >= MAX_TABS:
            self.note(f"A new tab was refused: {MAX_TABS} are open.", failed=True)
            self._spawn(page.close())
            return
        if self._pages:
            self.note("A new tab was opened and is in front now; back returns from it.")
        self._pages.append(page)
        self._opened.append(page)

    def _forget(self, page: Page) -> None:
        if page in self._pages:
            self._pages.remove(page)
            if self._pages:
                self.note("The tab was closed; the one before it is in front now.")

    def _on_crash(self, page: Page) -> None:
        self._crashed.add(page)

    async def _answer(self, dialog: Dialog) -> None:
        """Alerts, confirmations and leaving a page are agreed to; nobody can fill in a prompt."""
        said = quote(dialog.message)
        if dialog.type == "prompt":
            self.note(f"The page asked for a text: {said}. The prompt was cancelled.")
            await dialog.dismiss()
            return
        if dialog.type == "alert":
            self.note(f"The page said: {said}")
        elif dialog.type == "confirm":
            self.note(f"The page asked: {said}. It was answered with OK.")
        else:  # beforeunload
            self.note("The page asked whether to leave it; it was left.")
        await dialog.accept()

    def _on_download(self, download: Download) -> None:
        self.note(f"A download was refused: {quote(download.suggested_filename)}", failed=True)

    def _on_file_chooser(self, _: FileChooser) -> None:
        self.note("The page asked for a file; files cannot be uploaded here.", failed=True)

    async def _on_outside_request(self, route: Route) -> None:
        request = route.request
        if request.is_navigation_request() and _is_main_frame(route):
            self.refuse(request.url)
            # "aborted" leaves the page as it is; other reasons would show an error page
            await route.abort("aborted")
        elif self._closed:
            await route.abort("blockedbyclient")
        else:
            await route.fallback()

    def refuse(self, url: str) -> None:
        self.note(
            f"Going to {quote(url)} was refused: only {self._policy} may be visited.", failed=True
        )

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.ensure_future(_unless_gone(work))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


async def _unless_gone(work: Coroutine[Any, Any, None]) -> None:
    """Answers to a page may come too late: it is gone then, and so is the question."""
    try:
        await work
    except PlaywrightError:
        return


def _is_main_frame(route: Route) -> bool:
    try:
        return route.request.frame.parent_frame is None
    except PlaywrightError:
        return True  # the first request of a new tab: it has no frame yet
