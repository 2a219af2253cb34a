"""Scripted sessions on the bundled admin pages, as folders of screenshots."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path

from agentserve.browser.launch import launch_browser
from agentserve.browser.scenarios import Stage, load_scenario, open_scenario
from agentserve.core.actions import Action, Click, Key, Navigate, Type

_FIELDS = (
    ("#exampleFirstName", "Grace"),
    ("#exampleLastName", "Hopper"),
    ("#exampleInputEmail", "grace@example.com"),
    ("#exampleInputPassword", "cobol1959"),
    ("#exampleRepeatPassword", "cobol1959"),
)
_PAGES = (
    "charts.html", "tables.html", "cards.html", "buttons.html", "utilities-color.html",
    "utilities-border.html", "blank.html", "404.html", "login.html", "register.html",
    "forgot-password.html", "index.html",
)  # fmt: skip


async def _form(stage: Stage) -> AsyncIterator[Action]:
    """Fill the registration form, then go over it once more and correct each field."""
    for selector, text in _FIELDS:
        yield await _click(stage, selector)
        yield Type(text=text)
    for selector, text in _FIELDS:
        yield await _click(stage, selector)
        yield Key(keys="Control+a")
        yield Type(text=f"{text}2")


async def _navigation(stage: Stage) -> AsyncIterator[Action]:
    """Go from page to page."""
    base = stage.url.rpartition("/")[0]
    for page in _PAGES:
        yield Navigate(url=f"{base}/{page}")


TAPES: dict[str, tuple[str, Callable[[Stage], AsyncIterator[Action]]]] = {
    "form": ("admin/register", _form),
    "navigation": ("admin/find-office", _navigation),
}
"""The scenario that a tape begins with, and its actions."""


async def take_screens(tape: str, folder: Path) -> int:
    """Play a tape of TAPES in Chromium; one PNG a turn in the new ``folder``. Returns how many.

    Raises BrowserFailed.
    """
    scenario, actions = TAPES[tape]
    await asyncio.to_thread(folder.mkdir, parents=True)
    count = 0
    async with (
        launch_browser() as browser,
        open_scenario(browser, load_scenario(scenario)) as stage,
    ):

        async def take() -> None:
            nonlocal count
            (folder / f"{count:03d}.png").write_bytes(await stage.computer.screenshot())
            count += 1

        await take()
        async for action in actions(stage):
            await stage.computer.perform(action)
            await take()
    return count


async def _click(stage: Stage, selector: str) -> Click:
    box = await stage.computer.page.locator(selector).bounding_box()
    assert box is not None, f"{selector} is on the page"
    return Click(x=round(box["x"] + box["width"] / 2), y=round(box["y"] + box["height"] / 2))
