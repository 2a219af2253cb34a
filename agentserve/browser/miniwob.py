"""MiniWoB++ tasks: the HTML of the Python package miniwob, driven by its own JavaScript."""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass
from pathlib import Path

from playwright.async_api import Page

from agentserve.browser.ask import ask
from agentserve.browser.tasks import TaskState
from agentserve.core.errors import InvalidRequest

SUCCESS = 0.99
"""Raw rewards below it are consolation prizes of some tasks."""

# An episode that never times out (the longest delay a timer takes is 2^31 ms) and whose countdown
# stands still, so that no clock reaches the screen. The reward display lies beside the 160 px of
# the task; it is taken away and the page is kept from scrolling, or the wheel would bring it in.
_START = """seed => {
  Math.seedrandom(seed);
  core.EPISODE_MAX_TIME = 2e9;
  core.startEpisodeReal();
  core.clearTimer();
  document.getElementById('reward-display').style.display = 'none';
  document.documentElement.style.overflow = 'hidden';
  window.scrollTo(0, 0);
  return core.getUtterance();
}"""
_RESULT = "() => [WOB_DONE_GLOBAL, WOB_RAW_REWARD_GLOBAL]"


def html_folder() -> Path:
    """Where the package keeps its pages. Raises InvalidRequest when it is not installed."""
    spec = importlib.util.find_spec("miniwob")  # not imported: it pulls in gymnasium and selenium
    if spec is None or not spec.submodule_search_locations:
        raise InvalidRequest(
            "the MiniWoB++ pages are not installed", hint="pip install 'agentserve[browser]'"
        )
    return Path(spec.submodule_search_locations[0]) / "html"


def page_names() -> list[str]:
    return sorted(page.stem for page in (html_folder() / "miniwob").glob("*.html"))


@dataclass(frozen=True)
class MiniwobTask:
    """One task of MiniWoB++; the seed decides what it asks for."""

    name: str
    seed: int

    @property
    def start(self) -> str:
        return f"miniwob/{self.name}.html"

    async def prepare(self, page: Page, url: str) -> str:
        """Load the page and start an episode; returns its goal. Raises Playwright's errors."""
        await page.goto(url, wait_until="load")
        await page.wait_for_function("() => WOB_TASK_READY")
        return await page.evaluate(_START, self.seed)

    async def check(self, page: Page) -> TaskState:
        """Raises Playwright's error when the page is no MiniWoB++ page any more."""
        done, reward = await ask(page, _RESULT)
        return TaskState(done=done, reward=float(reward), success=reward >= SUCCESS)
