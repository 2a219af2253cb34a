"""Whole episodes, one at a time, on the product's own computer: real clicks, real keys.

    async with open_solo(browser) as solo:
        episode = await solo.play("login-user", seed, css="")

Every screen is what an agent would be shown, every action what it would have to say.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from playwright.async_api import Browser

from agentserve.browser import miniwob
from agentserve.browser.computer import PlaywrightComputer, open_computer
from agentserve.browser.miniwob import MiniwobTask
from agentserve.browser.pages import serve_pages
from agentserve.browser.settle import QUIET_S
from agentserve.core.actions import action_to_css
from agentserve.nano.collect.grid import Screen
from agentserve.nano.collect.points import SCALE, SPACE, VIEWPORT, make_record, step_action
from agentserve.nano.collect.scripts import solo_script

MAX_TURNS = 10
_NOWHERE = (-10, -10)
"""Where the mouse points to nothing, as before an agent's first action."""

_START = """async ([seed, css, quiet]) => {
  window.agentserveRestyle(css);
  const goal = window.agentserveStart(seed);
  await new Promise(resolve => setTimeout(resolve, quiet));
  return goal;
}"""
_LOOK = """([task, goal]) => JSON.stringify({
  goal, step: window.agentserveOracle(task, goal), ...window.agentserveScreen(),
})"""


@dataclass(frozen=True)
class Episode:
    """An episode that the oracle played."""

    screens: tuple[Screen, ...]
    """One a turn."""
    solved: bool
    why: str
    """How it ended, in words."""


class Solo:
    """A computer for episodes; made by ``open_solo``."""

    def __init__(self, computer: PlaywrightComputer, base: str) -> None:
        self._computer = computer
        self._base = base
        self._loaded: str | None = None

    async def play(self, task: str, seed: int, css: str = "") -> Episode:
        """Let the oracle play an episode, restyled with ``css``.

        Raises BrowserFailed, and Playwright's errors (those of the oracle among them).
        """
        page = self._computer.page
        wob = MiniwobTask(task, seed)
        goal = await self._start(wob, css)
        screens: list[Screen] = []
        history: list[tuple[str, str]] = []
        for turn in range(MAX_TURNS):
            png = await self._computer.screenshot()
            told: dict[str, Any] = json.loads(await page.evaluate(_LOOK, [task, goal]))
            if told["step"] is None:
                return Episode(tuple(screens), False, f"the oracle gave up in turn {turn}")
            record = make_record(task, seed, told, turn=turn, history=history)
            screens.append(({**record, "augmented": bool(css)}, png))
            history.append((record["thought"], record["action"]))
            outcome = await self._computer.perform(
                action_to_css(step_action(told["step"], SPACE), SPACE)
            )
            if outcome.status != "ok":
                return Episode(tuple(screens), False, outcome.message)
            state = await wob.check(page)
            if state.done:
                return Episode(tuple(screens), state.success, f"reward {state.reward:g}")
        return Episode(tuple(screens), False, f"not done after {MAX_TURNS} turns")

    async def _start(self, wob: MiniwobTask, css: str) -> str:
        """Start an episode, on the page as it is where that shows the task already."""
        page = self._computer.page
        if self._loaded != wob.name:
            self._loaded = None
            await wob.prepare(page, f"{self._base}/{wob.start}")
            self._loaded = wob.name
        await page.mouse.move(*_NOWHERE)
        return await page.evaluate(_START, [wob.seed, css, QUIET_S * 1000])


@asynccontextmanager
async def open_solo(browser: Browser) -> AsyncIterator[Solo]:
    """A fresh computer. Raises BrowserFailed and InvalidRequest as open_computer does."""
    async with (
        serve_pages(miniwob.html_folder()) as base,
        open_computer(browser, base, viewport=VIEWPORT, scale=SCALE, closed=True) as computer,
    ):
        computer.fit(SPACE)
        await computer.page.context.add_init_script(solo_script())
        yield Solo(computer, base)
