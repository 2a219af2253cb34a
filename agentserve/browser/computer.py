"""A browser page as a core.runs.Computer: deterministic screenshots in, actions out.

    async with launch_browser() as browser:
        async with open_computer(browser, url, viewport=Size(...)) as computer:
            await computer.load()
            png = await computer.screenshot()
            outcome = await computer.perform(Click(x=10, y=20))

Playwright's errors end here: as an Outcome in words for the model, or as BrowserFailed.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from contextlib import asynccontextmanager, suppress

from playwright.async_api import Browser, BrowserContext, Page
from playwright.async_api import Error as PlaywrightError

from agentserve.browser.acting import NAVIGATION_TIMEOUT_S, Actor
from agentserve.browser.aria import aria_snapshot
from agentserve.browser.capture import capture_still, resize_png
from agentserve.browser.determinism import hide_caret, make_same
from agentserve.browser.elements import element_at
from agentserve.browser.network import Network
from agentserve.browser.policy import NavigationPolicy
from agentserve.browser.recorded import act_recorded, aimed
from agentserve.browser.settle import Settler
from agentserve.browser.tabs import Tabs
from agentserve.browser.worlds import Worlds
from agentserve.core.actions import Action, Back, Navigate, Wait
from agentserve.core.actions.recorded import (
    Forward,
    OpenTab,
    RecordedAction,
    Reload,
    Resize,
    WaitFor,
)
from agentserve.core.elements import ElementTarget, PageBox
from agentserve.core.errors import BrowserFailed, InvalidRequest
from agentserve.core.pages import PageSettings
from agentserve.core.runs import NetworkNote, Performed, Pointer
from agentserve.core.screens import ScreenSpace, Size
from agentserve.core.sessions import Outcome
from agentserve.vision.masks import masked

ACTION_TIMEOUT_S = 10.0
_MESSAGE_CHARS = 2000
_OUTSIDE = (-1, -1)


@asynccontextmanager
async def open_computer(
    browser: Browser,
    url: str,
    *,
    viewport: Size,
    scale: float = 1.0,
    allow: Iterable[str] = (),
    closed: bool = False,
    settle_timeout_s: float = 5.0,
    settings: PageSettings = PageSettings(),
    masks: Sequence[PageBox] = (),
    network: Network | None = None,
) -> AsyncIterator[PlaywrightComputer]:
    """A fresh browser context whose start page is ``url``; nothing is loaded yet.

    ``viewport`` is in CSS px, ``scale`` model px per CSS px. The model may go to the origins of
    ``url`` and ``allow`` only; ``closed`` also keeps the pages themselves from fetching anything
    elsewhere. ``settings`` say what makes the pages the same each time; ``masks``, in CSS px, are
    painted over in every screenshot; ``network`` records, answers or watches what pages fetch.
    Raises InvalidRequest for a ``url`` that is not http(s).
    """
    policy = NavigationPolicy.of(url, allow)
    try:
        context = await browser.new_context(
            viewport={"width": viewport.width, "height": viewport.height},
            device_scale_factor=scale,
            locale="en-US",
            timezone_id="UTC",
            color_scheme="light",
            reduced_motion="reduce",
            accept_downloads=False,
            service_workers="block",  # their requests would pass by the policy
        )
        if network is not None:
            # before the tabs' own routes, which are asked first: what they refuse stays refused
            await network.attach(context, url)
        tabs = Tabs(context, policy, closed=closed)
        settler = Settler(context, settle_timeout_s)
        await hide_caret(context)
        await make_same(context, settings)
        await tabs.open()
    except PlaywrightError as error:
        # a context that was made goes with its browser
        raise BrowserFailed(f"the browser opens no page: {_first_line(error)}") from error
    computer = PlaywrightComputer(
        context,
        tabs,
        settler,
        policy,
        url,
        viewport=viewport,
        scale=scale,
        masks=masks,
        network=network,
    )
    try:
        yield computer
    finally:
        with suppress(PlaywrightError):  # the browser is gone already
            await asyncio.shield(asyncio.ensure_future(context.close()))
        await tabs.close()


class PlaywrightComputer:
    """Implements core.runs.RecordedComputer on a browser context; made by ``open_computer``."""

    def __init__(
        self,
        context: BrowserContext,
        tabs: Tabs,
        settler: Settler,
        policy: NavigationPolicy,
        start_url: str,
        *,
        viewport: Size,
        scale: float,
        masks: Sequence[PageBox] = (),
        network: Network | None = None,
    ) -> None:
        self._context = context
        self._tabs = tabs
        self._settler = settler
        self._worlds = Worlds(context)
        self._actor = Actor(tabs, self._worlds, policy)
        self._start_url = start_url
        self._viewport = viewport
        self._scale = scale
        self._masks = tuple(masks)
        self._network = network
        self._image_size: Size | None = None
        self._seen: Page | None = None

    @property
    def page(self) -> Page:
        """The page in front, for what prepares and checks a task. Raises BrowserFailed."""
        return self._tabs.front

    @property
    def url(self) -> str:
        return self._tabs.front.url

    def fit(self, space: ScreenSpace) -> None:
        """From now on screenshots have ``space.model``'s size (device px before that).

        Raises InvalidRequest when the space is not one of this computer's viewport.
        """
        if space.css != self._viewport or space.scale != self._scale:
            raise InvalidRequest(
                f"the session's screen is {space.css} at scale {space.scale:g}, the browser's "
                f"{self._viewport} at scale {self._scale:g}",
                hint="create the session with the viewport and the scale of the computer",
            )
        self._image_size = space.model

    @property
    def worlds(self) -> Worlds:
        """Scripts of ours beside the pages'."""
        return self._worlds

    def touched(self) -> None:
        """Somebody else acts on the pages: they must come to rest again."""
        self._settler.disturbed()

    def take_outcome(self) -> Outcome:
        """What the pages have done of their own accord since this was asked, or since an action."""
        return self._outcome()

    def renew(self) -> None:
        """Forget what pages have done so far: another task begins."""
        self._tabs.take_notes()
        self._seen = None

    @property
    def tabs(self) -> int:
        """How many are open."""
        return len(self._tabs)

    async def load(self) -> None:
        """Load the start page. Raises BrowserFailed when there is none."""
        try:
            await self.page.goto(
                self._start_url, wait_until="commit", timeout=NAVIGATION_TIMEOUT_S * 1000
            )
            await self._settle()
        except PlaywrightError as error:
            raise BrowserFailed(
                f"cannot open {self._start_url}: {_first_line(error)}",
                hint="is the page served, and the address right?",
            ) from error

    async def screenshot(self) -> bytes:
        try:
            await self._settle()
            page = self._tabs.front
            png = await capture_still(page, self._settler.timeout_s)
        except PlaywrightError as error:
            self._check_alive()
            raise BrowserFailed(f"the page cannot be captured: {_first_line(error)}") from error
        self._seen = page
        return await asyncio.to_thread(self._finished, png)

    def _finished(self, png: bytes) -> bytes:
        if self._image_size is not None:
            png = resize_png(png, self._image_size)
        # last, so that a recording's own masks find nothing left to paint
        return masked(png, self._masks, self._viewport)

    async def perform(self, action: Action) -> Outcome:
        """See core.runs.Computer. The message tells what the page did of its own accord (dialogs,
        tabs, downloads); what comes after the page seemed to rest is told with the next action.
        """
        return await self._perform(action, lambda: self._actor.act(action))

    async def element_at(self, x: float, y: float) -> ElementTarget | None:
        return await element_at(self._worlds, self._tabs.front, x, y)

    async def perform_recorded(
        self,
        action: RecordedAction,
        target: ElementTarget | None = None,
        to_target: ElementTarget | None = None,
    ) -> Performed:
        aim = await aimed(self._actor, action, (target, to_target), self._viewport)
        outcome = await self._perform(aim.action, lambda: act_recorded(self._actor, aim, target))
        if isinstance(action, Resize) and outcome.status == "ok":
            self._viewport, self._image_size = action.size, None
        return Performed(
            action=aim.action,
            outcome=outcome,
            found_by=aim.found and aim.found.chain,
            found_text=aim.found.text if aim.found else "",
        )

    async def put_pointer(self, pointer: Pointer) -> None:
        x, y = _OUTSIDE if pointer == "outside" else pointer
        self._settler.disturbed()
        try:
            await self._tabs.front.mouse.move(x, y)
        except PlaywrightError as error:
            self._check_alive()
            raise BrowserFailed(f"the pointer cannot be moved: {_first_line(error)}") from error

    async def aria(self) -> str:
        try:
            return await aria_snapshot(self._tabs.front)
        except PlaywrightError as error:
            self._check_alive()
            raise BrowserFailed(f"no aria snapshot: {_first_line(error)}") from error

    async def network_notes(self, wait_s: float = 0.0) -> list[NetworkNote]:
        return [] if self._network is None else await self._network.take_notes(wait_s)

    async def _perform(
        self, action: RecordedAction, doing: Callable[[], Awaitable[None]]
    ) -> Outcome:
        if self._seen not in (None, self._tabs.front):
            # a tab that came up late: the action was meant for another page
            self._tabs.note("Nothing was done: another tab had come to the front.", failed=True)
            return self._outcome()
        self._settler.disturbed()
        limit = _limit_s(action)
        try:
            async with asyncio.timeout(limit):
                await doing()
            await self._settle()
        except TimeoutError:
            self._tabs.note(f"The page did not react within {limit:.0f} s.", failed=True)
        except PlaywrightError as error:
            self._check_alive()
            self._tabs.note(f"The {action.kind} failed: {_first_line(error)}", failed=True)
        self._check_alive()
        return self._outcome()

    async def _settle(self) -> None:
        """Wait for the page in front to rest, and for tabs that open meanwhile."""
        while True:
            page = self._tabs.front
            await self._settler.settle(page)
            await self._tabs.leave_outside(self._start_url)
            if self._tabs.front is page:
                return
            self._settler.disturbed()

    def _check_alive(self) -> None:
        if self._context.browser is not None and not self._context.browser.is_connected():
            raise BrowserFailed("the browser is gone")
        _ = self._tabs.front

    def _outcome(self) -> Outcome:
        notes = self._tabs.take_notes()
        message = " ".join(note.text for note in notes)
        if len(message) > _MESSAGE_CHARS:
            message = message[: _MESSAGE_CHARS - 1] + "…"
        return Outcome(
            status="failed" if any(note.failed for note in notes) else "ok",
            message=message,
        )


def _limit_s(action: RecordedAction) -> float:
    """Longest that a page may take to let an action be done."""
    match action:
        case Wait(seconds=seconds):
            return ACTION_TIMEOUT_S + seconds
        case WaitFor(timeout_s=timeout_s):
            return ACTION_TIMEOUT_S + timeout_s
        case Navigate() | Back() | Forward() | Reload() | OpenTab():
            return ACTION_TIMEOUT_S + NAVIGATION_TIMEOUT_S
    return ACTION_TIMEOUT_S


def _first_line(error: PlaywrightError) -> str:
    """Playwright's message without its call log."""
    return error.message.splitlines()[0][:300] if error.message else type(error).__name__
