"""Doing an action to the page in front, with Playwright's mouse and keyboard."""

from __future__ import annotations

import asyncio

from playwright.async_api import Page

from agentserve.browser.policy import NavigationPolicy
from agentserve.browser.tabs import Tabs
from agentserve.browser.worlds import Worlds
from agentserve.core.actions import (
    Action,
    Back,
    CallUser,
    Click,
    Done,
    DoubleClick,
    Drag,
    Hover,
    Key,
    Navigate,
    Scroll,
    Type,
    Wait,
)

NAVIGATION_TIMEOUT_S = 30.0
DRAG_STEPS = 10


class Actor:
    """Acts on the tab in front. What the page or the policy refuses is noted with the tabs.

    Every method raises Playwright's errors and BrowserFailed.
    """

    def __init__(self, tabs: Tabs, worlds: Worlds, policy: NavigationPolicy) -> None:
        self._tabs = tabs
        self._worlds = worlds
        self._policy = policy

    @property
    def page(self) -> Page:
        return self._tabs.front

    async def act(self, action: Action) -> None:
        page = self.page
        match action:
            case Click(x=x, y=y, button=button):
                await page.mouse.click(x, y, button=button)
            case DoubleClick(x=x, y=y):
                await page.mouse.dblclick(x, y)
            case Hover(x=x, y=y):
                await page.mouse.move(x, y)
            case Drag():
                await page.mouse.move(action.x, action.y)
                await page.mouse.down()
                await page.mouse.move(action.to_x, action.to_y, steps=DRAG_STEPS)
                await page.mouse.up()
            case Scroll(x=x, y=y, dx=dx, dy=dy):
                await page.mouse.move(x, y)
                await page.mouse.wheel(dx, dy)
            case Type(text=text):
                await page.keyboard.type(text)
            case Key(keys=keys):
                await page.keyboard.press(keys)
            case Wait(seconds=seconds):
                await asyncio.sleep(seconds)
            case Navigate(url=url):
                await self.navigate(url)
            case Back():
                await self._go_back()
            case Done() | CallUser():
                pass  # said to the runner, not to the page

    async def navigate(self, url: str) -> None:
        page = self.page
        address = self.allowed(url)
        if address is not None:
            await page.goto(address, wait_until="commit", timeout=NAVIGATION_TIMEOUT_S * 1000)

    def allowed(self, url: str) -> str | None:
        """The absolute address; None, and a note, when it may not be visited."""
        address = self._policy.resolve(url, self.page.url)
        if address is None:
            self._tabs.refuse(url)
        return address

    async def go_forward(self) -> None:
        page = self.page
        index, addresses = await self._history()
        if index + 1 >= len(addresses):
            self.fail("There is no page to go forward to.")
            return
        await page.go_forward(wait_until="commit", timeout=NAVIGATION_TIMEOUT_S * 1000)

    async def reload(self) -> None:
        await self.page.reload(wait_until="commit", timeout=NAVIGATION_TIMEOUT_S * 1000)

    async def open_tab(self, url: str) -> None:
        address = url if url == "about:blank" else self.allowed(url)
        if address is None:
            return
        page = await self.page.context.new_page()
        if address != url or address != "about:blank":
            await page.goto(address, wait_until="commit", timeout=NAVIGATION_TIMEOUT_S * 1000)

    async def switch_tab(self, index: int) -> None:
        if not self._tabs.bring(index):
            self.fail(f"There is no tab {index}.")
            return
        await self.page.bring_to_front()

    async def close_tab(self) -> None:
        if len(self._tabs) < 2:
            self.fail("The only tab is not closed.")
            return
        await self.page.close()

    def fail(self, text: str) -> None:
        """Note what stands against the action."""
        self._tabs.note(text, failed=True)

    async def _go_back(self) -> None:
        """To the page before in this tab; from the first page of a tab to the tab before."""
        page = self.page
        index, addresses = await self._history()
        # a tab starts on about:blank: nothing to see there
        if index > 0 and addresses[index - 1] != "about:blank":
            await page.go_back(wait_until="commit", timeout=NAVIGATION_TIMEOUT_S * 1000)
        elif len(self._tabs) > 1:
            await page.close()
        else:
            self.fail("There is no page to go back to.")

    async def _history(self) -> tuple[int, list[str]]:
        """The place in the tab's history, and the addresses in it."""
        history = await self._worlds.ask(self.page, "Page.getNavigationHistory")
        return history["currentIndex"], [entry["url"] for entry in history["entries"]]
