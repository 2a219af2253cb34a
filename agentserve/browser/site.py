"""Tasks written for a folder of pages: a goal, a start page, and a check in JavaScript."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from playwright.async_api import Page
from pydantic import Field, StringConstraints

from agentserve.browser.ask import ask
from agentserve.browser.tasks import TaskState
from agentserve.core.errors import InvalidRequest
from agentserve.core.model import Wire


class WrittenTask(Wire):
    """A task in a scenario.toml."""

    name: Annotated[str, StringConstraints(pattern=r"^[a-z0-9-]{1,50}$")]
    goal: Annotated[str, StringConstraints(min_length=1, max_length=8000)]
    start: str
    """The page it starts on, below the scenario's pages."""
    check: Annotated[str, StringConstraints(min_length=1)]
    """A JavaScript expression, evaluated in the page: true once the goal is reached."""
    script: str = ""
    """JavaScript that runs in every page before the page's own, in place of a backend."""
    max_turns: Annotated[int, Field(ge=1, le=1000)] | None = None
    """The scenario's when left out."""


@dataclass(frozen=True)
class SiteTask:
    """A written task, played on a page."""

    written: WrittenTask

    @property
    def start(self) -> str:
        return self.written.start

    async def prepare(self, page: Page, url: str) -> str:
        """Load the start page; returns the goal. Raises Playwright's errors."""
        if self.written.script:
            await page.context.add_init_script(f"(() => {{{self.written.script}\n}})()")
        answer = await page.goto(url, wait_until="load")
        if answer is not None and not answer.ok:
            raise InvalidRequest(f"task {self.written.name}: {url} answered {answer.status}")
        return self.written.goal

    async def check(self, page: Page) -> TaskState:
        """Raises Playwright's error when the check throws, InvalidRequest when it is no check."""
        reached = await ask(page, f"() => ({self.written.check}\n)")
        if not isinstance(reached, bool):
            raise InvalidRequest(
                f"the check of task {self.written.name} must give true or false, not {reached!r}"
            )
        return TaskState(done=reached, reward=float(reached), success=reached)
