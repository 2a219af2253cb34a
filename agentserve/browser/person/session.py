"""A person at a browser, as steps of a recording: what was seen before each act, and the act."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from playwright.async_api import Error as PlaywrightError
from playwright.async_api import Page

from agentserve.browser.computer import PlaywrightComputer
from agentserve.browser.person.acts import Act, Hidden, act_of, merged
from agentserve.browser.person.ears import Ears
from agentserve.browser.person.journeys import History, journey
from agentserve.browser.person.messages import Begin, Message
from agentserve.core.actions import Done, Navigate
from agentserve.core.actions.recorded import CloseTab, OpenTab, Unsupported
from agentserve.core.errors import BrowserFailed
from agentserve.core.sessions import Outcome

CONSEQUENCE_S = 1.5
"""What becomes of tabs and their history so soon after an act on a page is the page's doing."""
IDLE_S = 3.0
"""How often a page is looked at while nobody acts: it may change by itself."""
BEGUN_S = 5.0
"""What has begun and not come to an end for so long never will: its end was outside of the page."""
FLUSH_S = 1.0
"""Longer than the script keeps a text that is being typed."""


@dataclass(frozen=True)
class View:
    """What there was to see."""

    url: str
    picture: bytes
    """PNG."""
    aria: str


@dataclass(frozen=True)
class PersonStep:
    """One step. Without a view, the person was faster than the page came to rest."""

    view: View | None
    url: str
    act: Act
    outcome: Outcome


OnStep = Callable[[PersonStep], Awaitable[None]]


class PersonSession:
    """Watches a person on a computer whose start page is loaded.

    ``on_step`` is called with one step after the other, each when the next act begins: typing goes
    on, a click becomes a double click. A look at the page is taken whenever it has come to rest.
    """

    def __init__(self, computer: PlaywrightComputer, on_step: OnStep) -> None:
        self._computer = computer
        self._on_step = on_step
        self.hidden = Hidden()
        self.ready = asyncio.Event()
        """The page has been looked at since the last act."""
        self.over = asyncio.Event()
        """No tab is left."""
        self._ears = Ears(computer.worlds, self._hear)
        self._pages: list[Page] = []
        self._histories: dict[Page, History] = {}
        self._view: View | None = None
        self._begun: tuple[float, View | None] | None = None
        self._complete = asyncio.Event()
        """What has begun has come to its end."""
        self._pending: tuple[View | None, str, Act] | None = None
        self._generation = 0
        self._acted_at = -CONSEQUENCE_S
        self._wake = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()
        self._steps: asyncio.Queue[PersonStep] = asyncio.Queue()

    @property
    def refused(self) -> int:
        """Messages from pages that were none, or too many."""
        return self._ears.refused

    async def begin(self) -> None:
        """Listen to the tabs that are open and to all that come. Raises BrowserFailed."""
        context = self._computer.page.context
        context.on("page", lambda page: self._spawn(self._opened(page)))
        try:
            for page in context.pages:
                await self._listen(page)
        except PlaywrightError as error:
            raise BrowserFailed(f"the page cannot be listened to: {error.message[:300]}") from error

    async def run(self) -> None:
        """Until no tab is left, or cancelled; then call ``finish``. Raises what ``on_step`` does,
        and BrowserFailed when the browser is gone."""
        looking = asyncio.ensure_future(self._keep_looking())
        telling = asyncio.ensure_future(self._keep_telling())
        ending = asyncio.ensure_future(self.over.wait())
        running = {looking, telling, ending}
        try:
            done, _ = await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
            for each in done:
                each.result()
        finally:
            for task in (*running, *self._tasks):
                task.cancel()
            await asyncio.gather(*running, *self._tasks, return_exceptions=True)

    async def finish(self) -> None:
        """Tell what is left, and a last step: the page as it was left."""
        if self._begun is not None and not self.over.is_set():
            with suppress(TimeoutError):
                async with asyncio.timeout(FLUSH_S):
                    await self._complete.wait()
            self._begun = None
        self._put_pending()
        with suppress(BrowserFailed):
            await self._look()
        while not self._steps.empty():
            await self._on_step(self._steps.get_nowait())
        if self._view is not None:
            ok = Outcome(status="ok")
            await self._on_step(PersonStep(self._view, self._view.url, Act(Done()), ok))

    # what the person does

    def _hear(self, page: Page, message: Message) -> None:
        now = asyncio.get_running_loop().time()
        self._acted_at = now
        self._disturbed()
        if isinstance(message, Begin):
            self._begun = (now, self._view)
            self._view = None
            self._complete.clear()
            return
        act = act_of(message, self.hidden)
        if act is None:
            return
        if page is not self._front():
            act = Act(Unsupported(what=f"a {message.kind} on a tab that was not in front"))
        self._add(act)

    def _add(self, act: Act) -> None:
        view = self._begun[1] if self._begun else self._view
        self._begun, self._view = None, None
        self._complete.set()
        before = self._pending
        both = merged(before[2], act) if before else None
        if before is not None and both is not None:
            self._pending = (before[0], before[1], both)
        else:
            self._put_pending()
            url = view.url if view else self._url()
            self._pending = (view, url, act)
        self._disturbed()
        self._wake.set()

    def _put_pending(self) -> None:
        if self._pending is not None:
            view, url, act = self._pending
            self._pending = None
            outcome = self._computer.take_outcome()
            if isinstance(act.action, Unsupported):
                outcome = Outcome(status="failed", message="It has no equal in a recording.")
            self._steps.put_nowait(PersonStep(view, url, act, outcome))

    def _disturbed(self) -> None:
        self._generation += 1
        self.ready.clear()
        self._computer.touched()

    # tabs and their history

    async def _opened(self, page: Page) -> None:
        by_page = self._is_consequence() or await page.opener() is not None
        await self._listen(page)
        if not by_page:
            url = page.url if page.url.startswith(("http://", "https://")) else "about:blank"
            self._add(Act(OpenTab(url=url[:2000])))

    async def _listen(self, page: Page) -> None:
        self._pages.append(page)
        page.on("close", self._closed)
        session = await self._computer.worlds.session(page)
        self._histories[page] = await History.of(session)
        session.on(
            "Page.frameNavigated",
            lambda event: None if "parentId" in event["frame"] else self._moved(page, True),
        )
        session.on("Page.navigatedWithinDocument", lambda _: self._moved(page, False))
        await self._ears.listen(page)

    def _closed(self, page: Page) -> None:
        front, consequence = self._front() is page, self._is_consequence()
        self._pages.remove(page)
        self._histories.pop(page, None)
        if not self._pages:
            self.over.set()
        elif not consequence and front:
            self._add(Act(CloseTab()))
        elif not consequence:
            self._add(Act(Unsupported(what="a tab that was not in front was closed")))
        else:
            self._disturbed()

    def _moved(self, page: Page, new_document: bool) -> None:
        self._spawn(self._told_by_history(page, new_document, self._is_consequence()))

    async def _told_by_history(self, page: Page, new_document: bool, consequence: bool) -> None:
        before = self._histories.get(page)
        after = await History.of(await self._computer.worlds.session(page))
        if before is None or page not in self._histories:
            return
        self._histories[page] = after
        action = journey(before, after)
        certain = isinstance(action, Navigate)  # no page can do this
        if action is None or (consequence and not certain):
            return
        if not new_document and after.id == before.id:
            return
        if self._view is not None and self._view.url == after.url != before.url:
            self._view = None  # it was looked at before this was told
        self._add(Act(action))

    def _is_consequence(self) -> bool:
        return asyncio.get_running_loop().time() - self._acted_at < CONSEQUENCE_S

    def _front(self) -> Page | None:
        return self._pages[-1] if self._pages else None

    def _url(self) -> str:
        return self._pages[-1].url if self._pages else ""

    # looking and telling

    async def _keep_looking(self) -> None:
        while True:
            if self._begun is not None:
                since = asyncio.get_running_loop().time() - self._begun[0]
                if since > BEGUN_S:
                    self._begun = None
            if self._begun is None:
                await self._look()
            with suppress(TimeoutError):
                # a page that nobody acts on is looked at again: it may change by itself
                async with asyncio.timeout(IDLE_S if self._begun is None else 1.0):
                    await self._wake.wait()
            self._wake.clear()

    async def _look(self) -> None:
        """Look at the page in front. What was seen counts if nobody acted meanwhile."""
        while self._pages:
            generation = self._generation
            try:
                url = self._computer.url
                picture, aria = await self._computer.screenshot(), await self._computer.aria()
            except BrowserFailed:
                if not self._pages:
                    return
                browser = self._pages[-1].context.browser
                if browser is None or not browser.is_connected():
                    self.over.set()
                    return
                await asyncio.sleep(0.1)  # the page went while it was looked at
                continue
            if self._begun is not None:
                return
            if generation == self._generation:
                url = self._computer.url or url
                self._view = View(url, picture, self.hidden.hide(aria))
                self.ready.set()
                return

    async def _keep_telling(self) -> None:
        while True:
            await self._on_step(await self._steps.get())

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.ensure_future(_unless_gone(work))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


async def _unless_gone(work: Coroutine[Any, Any, None]) -> None:
    """A tab may be gone before it is asked."""
    with suppress(PlaywrightError):
        await work
