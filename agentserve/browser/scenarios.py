"""Scenarios by name: tasks on local pages, each with a goal and a check of its own.

    scenario = load_scenario("miniwob/click-test", seed=3)
    async with open_scenario(browser, scenario) as stage:
        ... stage.computer, stage.goal, await stage.check() ...

``scenarios/<name>/scenario.toml`` describes them. ``kind = "site"`` is a folder of pages with
tasks written for it, ``kind = "miniwob"`` names tasks of MiniWoB++.
"""

from __future__ import annotations

import difflib
import tomllib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from playwright.async_api import Browser
from playwright.async_api import Error as PlaywrightError
from pydantic import Field, TypeAdapter, ValidationError

import agentserve
from agentserve.browser import miniwob
from agentserve.browser.computer import PlaywrightComputer, open_computer
from agentserve.browser.miniwob import MiniwobTask
from agentserve.browser.pages import serve_pages
from agentserve.browser.site import SiteTask, WrittenTask
from agentserve.browser.tasks import TaskState
from agentserve.core.errors import BrowserFailed, InvalidRequest
from agentserve.core.model import Wire
from agentserve.core.screens import Size

BUNDLED = Path(agentserve.__file__).parents[1] / "scenarios"
Scale = Annotated[float, Field(gt=0, le=8)]
MaxTurns = Annotated[int, Field(ge=1, le=1000)]
Names = Annotated[tuple[str, ...], Field(min_length=1)]


class SiteFile(Wire):
    """A scenario.toml of kind ``site``."""

    kind: Literal["site"]
    title: str
    pages: Names
    """Folders below the scenario's own, served as one; the first that has a file gives it."""
    viewport: Size
    scale: Scale
    max_turns: MaxTurns
    tasks: Annotated[tuple[WrittenTask, ...], Field(min_length=1)]


class MiniwobFile(Wire):
    """A scenario.toml of kind ``miniwob``. Its pages come with the Python package miniwob."""

    kind: Literal["miniwob"]
    title: str
    viewport: Size
    scale: Scale
    max_turns: MaxTurns
    tasks: Names
    """The tasks that are listed; every other page of the package can be named too."""


_FILE: TypeAdapter[SiteFile | MiniwobFile] = TypeAdapter(
    Annotated[SiteFile | MiniwobFile, Field(discriminator="kind")]
)


@dataclass(frozen=True)
class Scenario:
    """One task, ready to be opened."""

    name: str
    folders: tuple[Path, ...]
    """Where its pages lie."""
    viewport: Size
    """CSS px."""
    scale: float
    """Model px per CSS px."""
    max_turns: int
    task: SiteTask | MiniwobTask


@dataclass(frozen=True)
class Stage:
    """An opened scenario: the computer shows its first screen."""

    scenario: Scenario
    computer: PlaywrightComputer
    url: str
    goal: str

    async def check(self) -> TaskState:
        """How far the task is, by the page in front.

        Raises InvalidRequest when the check itself is broken, BrowserFailed when the page is.
        """
        try:
            return await self.scenario.task.check(self.computer.page)
        except PlaywrightError as error:
            raise InvalidRequest(
                f"the check of {self.scenario.name} failed: {error.message.splitlines()[0]}"
            ) from error


def list_scenarios(root: Path = BUNDLED) -> list[str]:
    """Names of all listed scenarios, in the order of their files."""
    return [
        f"{file.parent.name}/{task}"
        for file in sorted(root.glob("*/scenario.toml"))
        for task in _task_names(read_file(file))
    ]


def load_scenario(name: str, seed: int = 0, root: Path = BUNDLED) -> Scenario:
    """The scenario ``<folder>/<task>``; MiniWoB++ tasks differ by ``seed``.

    Raises InvalidRequest for an unknown name (with the nearest ones) or a malformed scenario.toml.
    """
    folder, _, task_name = name.partition("/")
    path = root / folder / "scenario.toml"
    names = list_scenarios(root)
    if folder not in {known.partition("/")[0] for known in names}:
        raise _unknown(name, names)
    file = read_file(path)
    match file:
        case MiniwobFile():
            known = miniwob.page_names()
            folders: tuple[Path, ...] = (miniwob.html_folder(),)
        case SiteFile():
            known = _task_names(file)
            folders = tuple(path.parent / pages for pages in file.pages)
    if task_name not in known:
        raise _unknown(name, [f"{folder}/{task}" for task in known])
    max_turns = file.max_turns
    task: SiteTask | MiniwobTask
    if isinstance(file, SiteFile):
        written = next(task for task in file.tasks if task.name == task_name)
        max_turns = written.max_turns or max_turns
        task = SiteTask(written)
    else:
        task = MiniwobTask(task_name, seed)
    return Scenario(name, folders, file.viewport, file.scale, max_turns, task)


@asynccontextmanager
async def open_scenario(
    browser: Browser, scenario: Scenario, **options: Any
) -> AsyncIterator[Stage]:
    """Serve the scenario's pages, open a computer on them and prepare the task.

    The pages reach nothing but themselves. Further ``options`` are open_computer's. Raises
    BrowserFailed when the page cannot be prepared.
    """
    async with (
        serve_pages(*scenario.folders) as base,
        open_for(browser, scenario, base, **options) as computer,
    ):
        yield await set_stage(computer, scenario, base)


@asynccontextmanager
async def open_for(
    browser: Browser, scenario: Scenario, base: str, **options: Any
) -> AsyncIterator[PlaywrightComputer]:
    """A computer for a scenario whose pages are served at ``base``, and for its likes: those of the
    same pages, viewport and scale."""
    async with open_computer(
        browser,
        f"{base}/{scenario.task.start}",
        viewport=scenario.viewport,
        scale=scenario.scale,
        closed=True,
        **options,
    ) as computer:
        yield computer


async def set_stage(computer: PlaywrightComputer, scenario: Scenario, base: str) -> Stage:
    """Load the scenario's start page and prepare its task. Raises BrowserFailed."""
    url = f"{base}/{scenario.task.start}"
    computer.renew()
    try:
        goal = await scenario.task.prepare(computer.page, url)
    except PlaywrightError as error:
        raise BrowserFailed(
            f"scenario {scenario.name} cannot be opened: {error.message.splitlines()[0]}"
        ) from error
    return Stage(scenario, computer, url, goal)


def read_file(path: Path) -> SiteFile | MiniwobFile:
    """A scenario.toml. Raises InvalidRequest that names the file and the first thing wrong."""
    try:
        return _FILE.validate_python(tomllib.loads(path.read_text(encoding="utf-8")))
    except (OSError, tomllib.TOMLDecodeError) as error:
        raise InvalidRequest(f"cannot read {path}: {error}") from error
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        raise InvalidRequest(f"{path}: {where}: {first['msg']}") from error


def _task_names(file: SiteFile | MiniwobFile) -> list[str]:
    if isinstance(file, MiniwobFile):
        return list(file.tasks)
    return [task.name for task in file.tasks]


def _unknown(name: str, known: list[str]) -> InvalidRequest:
    near = difflib.get_close_matches(name, known, n=3, cutoff=0.4)
    return InvalidRequest(
        f"no scenario is called {name[:100]!r}",
        hint=f"did you mean {' or '.join(near)}?" if near else f"known: {', '.join(known)}",
    )
