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
from agentserve.browser.person.acts import Act, act_of, merged
from agentserve.browser.person.ears import Ears
from agentserve.browser.person.hidden import Hidden
from agentserve.browser.person.journeys import History, Move, Travels
from agentserve.browser.person.messages import Begin, Held, Message, Pointed
from agentserve.browser.person.pointers import Pointers, hovered
from agentserve.core.actions import Navigate
from agentserve.core.actions.recorded import CloseTab, OpenTab, Unsupported
from agentserve.core.errors import BrowserFailed
from agentserve.core.runs import Pointer
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
    pointer: Pointer | None = None
    """Where it was. None: unknown."""


@dataclass(frozen=True)
class PersonStep:
    """One step. Without a view, the person was faster than the page came to rest, or there was no
    page."""

    view: View | None
    url: str
    act: Act | None
    """None: the page as it was left."""
    outcome: Outcome


OnStep = Callable[[PersonStep], Awaitable[None]]


@dataclass(frozen=True)
class _Known:
    """What was known when a tab began to show something else."""

    view: View | None
    consequence: bool


class PersonSession:
    """Watches a person on a computer whose start page is loaded.

    ``on_step`` is called with one step after the other, each when the next act begins: typing goes
    on, a click becomes a double click. A look at the page is taken whenever it has come to rest.
    """

    def __init__(
        self, computer: PlaywrightComputer, on_step: OnStep, hidden: Hidden | None = None
    ) -> None:
        self._computer = computer
        self._on_step = on_step
        self.hidden = hidden or Hidden()
        """What addresses, targets and views may hold in clear: only acts of typing are without."""
        self.ready = asyncio.Event()
        """The page has been looked at since the last act."""
        self.over = asyncio.Event()
        """No tab is left."""
        self._ears = Ears(computer.worlds, self._hear)
        self._pages: list[Page] = []
        self._travels: dict[Page, Travels[_Known]] = {}
        self._view: View | None = None
        self._begun: tuple[float, View | None] | None = None
        self._complete = asyncio.Event()
        """What has begun has come to its end."""
        self._pending: tuple[View | None, str, Act] | None = None
        self._came: list[Outcome] = []
        """What pages have done of their own accord since the pending act."""
        self._generation = 0
        self._acted_at = -CONSEQUENCE_S
        self._wake = asyncio.Event()
        # what was seen before stands until the page was seen with the pointer at rest
        self._pointers = Pointers(self._wake.set)
        self._tasks: set[asyncio.Task[None]] = set()
        self._steps: asyncio.Queue[PersonStep] = asyncio.Queue()
        self._being_told: asyncio.Future[None] | None = None
        """A step that has been begun with is told to its end, whenever the run is cancelled."""

    @property
    def refused(self) -> int:
        """Messages from pages that were none, or too many."""
        return self._ears.refused

    async def begin(self) -> None:
        """Listen to the tabs that are open and to all that come. Raises BrowserFailed."""
        context = self._computer.page.context
        context.on("page", self._on_page)
        try:
            for page in context.pages:
                self._spawn(self._follow(page, await self._listen(page)))
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
        """Tell what is left, and a last step: the page as it was left. Raises what ``on_step``
        does."""
        if self._being_told is not None:
            await self._being_told
        if self._begun is not None and not self.over.is_set():
            with suppress(TimeoutError):
                async with asyncio.timeout(FLUSH_S):
                    await self._complete.wait()
            self._begun = None
        for page, travels in list(self._travels.items()):
            with suppress(PlaywrightError):
                while travels.untold:
                    await self._tell_next(page, travels)
        self._notice()
        self._put_pending()
        with suppress(BrowserFailed):
            await self._look()
        while not self._steps.empty():
            await self._on_step(self._steps.get_nowait())
        if self._view is not None:
            ok = Outcome(status="ok")
            await self._on_step(PersonStep(self._view, self._view.url, None, ok))

    # what the person does

    def _hear(self, page: Page, message: Message) -> None:
        if isinstance(message, Held):
            act_of(message, self.hidden)
            return
        if isinstance(message, Pointed):
            self._pointers.moved(page, message.at)
            return
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

    def _add(self, act: Act, own: Outcome | None = None) -> None:
        """``own``: what is known to be this act's doing, and not that of the one before."""
        view = self._begun[1] if self._begun else self._view
        self._begun = None
        self._complete.set()
        self._pend(act, view, self._url(), own)
        self._look_again()

    def _pend(self, act: Act, view: View | None, url: str, own: Outcome | None = None) -> None:
        """``url`` is where it was done when nothing was seen."""
        before = self._pending
        both = merged(before[2], act) if before else None
        if before is not None and both is not None:
            self._pending = (before[0], before[1], both)
        else:
            if own is None:
                self._notice()
            self._put_pending()
            self._came = [own] if own else []
            self._pending = (view, view.url if view else url, act)

    def _notice(self) -> None:
        """What pages have done until now is the pending act's."""
        outcome = self._computer.take_outcome()
        if outcome.message:
            self._came.append(outcome)

    def _look_again(self) -> None:
        self._view = None
        self._disturbed()
        self._wake.set()

    def _put_pending(self) -> None:
        if self._pending is not None:
            view, url, act = self._pending
            self._pending = None
            self.hidden.left(act.secret)
            outcome = _together(self._came)
            if isinstance(act.action, Unsupported):
                outcome = Outcome(status="failed", message="It has no equal in a recording.")
            if url.startswith("chrome://"):  # a window's own new tab: a replay's is empty
                view, url = None, "about:blank"
            self._steps.put_nowait(PersonStep(view, url, act, outcome))

    def _disturbed(self) -> None:
        self._generation += 1
        self.ready.clear()
        self._computer.touched()

    # tabs and their history

    def _on_page(self, page: Page) -> None:
        self._spawn(self._opened(page, self._is_consequence(), self._computer.take_outcome()))

    async def _opened(self, page: Page, consequence: bool, told: Outcome) -> None:
        by_page = consequence or await page.opener() is not None
        if by_page:
            self._came.append(told)
        travels = await self._listen(page)
        if not by_page:
            url = travels.history.shown.url
            here = url if url.startswith(("http://", "https://")) else "about:blank"
            self._add(Act(OpenTab(url=here[:2000])), told)
        await self._follow(page, travels)

    async def _listen(self, page: Page) -> Travels[_Known]:
        self._pages.append(page)
        page.on("close", self._closed)
        worlds = self._computer.worlds
        travels = Travels[_Known](worlds, page, await History.of(worlds, page))
        self._travels[page] = travels
        session = await worlds.session(page)
        session.on("Page.frameNavigated", lambda event: self._loaded(travels, event["frame"]))
        session.on("Page.navigatedWithinDocument", lambda event: self._within(travels, event))
        tree = await worlds.ask(page, "Page.getFrameTree")
        travels.frame = tree["frameTree"]["frame"]["id"]
        await self._ears.listen(page)
        # from here on nothing is missed; what was until now is what the tab was opened with
        travels.history = await History.of(worlds, page)
        return travels

    def _closed(self, page: Page) -> None:
        front, consequence = self._front() is page, self._is_consequence()
        self._pages.remove(page)
        self._travels.pop(page, None)
        self._pointers.closed(page)
        if not self._pages:
            self.over.set()
        elif not consequence and front:
            self._add(Act(CloseTab()), self._computer.take_outcome())
        elif not consequence:
            self._add(Act(Unsupported(what="a tab that was not in front was closed")))
        else:
            self._disturbed()

    def _loaded(self, travels: Travels[_Known], frame: dict[str, str]) -> None:
        if "parentId" not in frame:
            travels.frame = frame["id"]
            url = frame.get("unreachableUrl") or frame["url"] + frame.get("urlFragment", "")
            self._moved(travels, url, new_document=True)

    def _within(self, travels: Travels[_Known], event: dict[str, str]) -> None:
        if event["frameId"] == travels.frame:
            self._moved(travels, event["url"], new_document=False)

    def _moved(self, travels: Travels[_Known], url: str, *, new_document: bool) -> None:
        travels.moved(Move(url, new_document, _Known(self._view, self._is_consequence())))
        if new_document:
            self._look_again()

    async def _follow(self, page: Page, travels: Travels[_Known]) -> None:
        while not page.is_closed():
            with suppress(PlaywrightError):
                await self._tell_next(page, travels)

    async def _tell_next(self, page: Page, travels: Travels[_Known]) -> None:
        travel = await travels.next()
        if page not in self._travels:
            return
        view = travel.seen.view
        if view is not None and view.url == travel.after.url != travel.before.url:
            view = None  # it was looked at before the page told
        for action in travel.journeys:
            certain = isinstance(action, Navigate)  # no page can do this
            if travel.seen.consequence and not certain:
                continue
            if page is not self._front():
                self._add(Act(Unsupported(what="a tab that was not in front went elsewhere")))
            elif travel.new_document:  # it has been looked at since, or will be
                self._pend(Act(action), view, travel.before.url)
            else:
                self._add(Act(action))
            view = None

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
            generation, page = self._generation, self._pages[-1]
            pointer = self._pointers.on(page)
            try:
                url = self._computer.url
                picture, aria = await self._computer.screenshot(), await self._computer.aria()
                under = await hovered(self._computer.worlds, page) if pointer is None else None
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
                self._notice()
                now = self._pointers.on(page)
                if self._view is None or now == pointer:  # else it is looked at when that rests
                    self._view = View(url, picture, aria, now or under)
                self.ready.set()
                return

    async def _keep_telling(self) -> None:
        while True:
            self._being_told = asyncio.ensure_future(self._on_step(await self._steps.get()))
            await asyncio.shield(self._being_told)

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.ensure_future(_unless_gone(work))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


def _together(outcomes: list[Outcome]) -> Outcome:
    failed = any(outcome.status == "failed" for outcome in outcomes)
    message = " ".join(outcome.message for outcome in outcomes if outcome.message)
    return Outcome(status="failed" if failed else "ok", message=message[:2000])


async def _unless_gone(work: Coroutine[Any, Any, None]) -> None:
    """A tab may be gone before it is asked."""
    with suppress(PlaywrightError):
        await work
