"""One agent run: open the page, create the session, record, run."""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path, PurePath
from typing import Any

from playwright.async_api import Browser

from agentserve.browser.computer import PlaywrightComputer, open_computer
from agentserve.browser.network import NetworkRecording
from agentserve.browser.policy import origin_of
from agentserve.browser.runner import run_task
from agentserve.browser.scenarios import Scenario, open_scenario
from agentserve.browser.tasks import Check
from agentserve.client import RouterClient
from agentserve.core.config import RunConfig
from agentserve.core.elements import PageBox
from agentserve.core.errors import UnknownProgram
from agentserve.core.pages import PageSettings
from agentserve.core.runs import RunObserver, RunSummary
from agentserve.core.screens import Size
from agentserve.core.sessions import ScreenPolicy, SessionCreate
from agentserve.core.workers import WorkerReport, WorkerState
from agentserve.replay import Recorder, ScenarioRef


@dataclass(frozen=True)
class PageTarget:
    """A task on any web page, without a check."""

    url: str
    task: str
    viewport: Size
    scale: float = 1.0
    allow: tuple[str, ...] = ()
    """Further origins that the model may go to."""


@dataclass(frozen=True)
class Agent:
    """Who runs: a program, and the settings of its sessions."""

    program: str
    """Name, or path of the program's file."""
    screens: ScreenPolicy = ScreenPolicy()
    model: str | None = None

    @property
    def name(self) -> str:
        return Path(self.program).stem if self.program.endswith(".py") else self.program

    def program_file(self) -> Path | None:
        """The program's file when it was named by its path. Raises UnknownProgram."""
        if not self.program.endswith(".py"):
            return None
        path = Path(self.program)
        if not path.is_file():
            raise UnknownProgram(
                f"there is no program file {path}",
                hint="bundled programs go by name: navigator, form_filler, verifier",
            )
        return path


@dataclass(frozen=True)
class Redacted:
    """What neither the model nor the recording gets, and what the recording alone does not."""

    masks: tuple[PageBox, ...] = ()
    """Regions of every screenshot, in CSS px."""
    secrets: Mapping[str, str] = field(default_factory=dict)
    """Values by names; they are kept out of the recording."""


@dataclass(frozen=True)
class Finished:
    """A run that came to its end, and where it was recorded."""

    summary: RunSummary
    """As recorded: without the values of secrets."""
    recording: Path


@dataclass(frozen=True)
class OpenedPage:
    """A task's page, which shows its first screen."""

    computer: PlaywrightComputer
    task: str
    viewport: Size
    scale: float
    check: Check | None
    reference: ScenarioRef | None
    name: str
    surface: str

    async def left(self) -> tuple[str, bytes]:
        """Address and PNG of the page in front, as it is now. Raises BrowserFailed."""
        image = await self.computer.screenshot()
        return self.computer.url, image


@asynccontextmanager
async def open_target(
    browser: Browser,
    target: PageTarget | Scenario,
    settle_timeout_s: float,
    seed: int | None,
    **options: Any,
) -> AsyncIterator[OpenedPage]:
    """``options`` are further ones of open_computer. Raises InvalidRequest and BrowserFailed."""
    options["settle_timeout_s"] = settle_timeout_s
    if isinstance(target, Scenario):
        async with open_scenario(browser, target, **options) as stage:
            yield OpenedPage(
                computer=stage.computer,
                task=stage.goal,
                viewport=target.viewport,
                scale=target.scale,
                check=stage.check,
                reference=ScenarioRef(name=target.name, seed=seed),
                name=target.name,
                surface=target.name,
            )
        return
    async with open_computer(
        browser,
        target.url,
        viewport=target.viewport,
        scale=target.scale,
        allow=target.allow,
        **options,
    ) as computer:
        await computer.load()
        yield OpenedPage(
            computer=computer,
            task=target.task,
            viewport=target.viewport,
            scale=target.scale,
            check=None,
            reference=None,
            name=target.url,
            surface=origin_of(target.url),
        )


async def run_agent(
    client: RouterClient,
    browser: Browser,
    agent: Agent,
    target: PageTarget | Scenario,
    config: RunConfig,
    recordings: Path,
    *,
    seed: int | None = None,
    observers: Sequence[RunObserver] = (),
    redacted: Redacted | None = None,
    page: PageSettings | None = None,
    aria: bool = False,
    ended: Callable[[OpenedPage], Awaitable[None]] | None = None,
) -> Finished:
    """Run one task and record it under ``recordings``: with aria snapshots when ``aria``, with what
    the pages fetch when ``page`` says so. ``ended`` is called while the page is still open.

    Raises what opening the page and creating the session raise; what happens later is part of the
    summary. Raises RecordingError when the recording cannot be written.
    """
    page = page or PageSettings()
    network = NetworkRecording() if page.network == "recorded" else None
    program_sha = await _program_sha256(client, agent)
    redacted = redacted or Redacted()
    settle = config.settle_timeout_s
    async with open_target(
        browser, target, settle, seed, masks=redacted.masks, settings=page, network=network
    ) as opened:
        session = await client.create_session(
            SessionCreate(
                program=agent.name,
                task=opened.task,
                model=agent.model,
                viewport=opened.viewport,
                scale=opened.scale,
                surface=opened.surface[:200],
                **agent.screens.model_dump(),
                metadata={"run": opened.name[:1000]},
            )
        )
        opened.computer.fit(session.space)
        recorder = Recorder(
            recordings,
            scenario=opened.reference,
            program_sha256=program_sha,
            worker=await _worker_report(client),
            masks=redacted.masks,
            secrets=redacted.secrets,
            allow=[origin_of(url) for url in getattr(target, "allow", ())],
            page=page,
            aria=opened.computer.aria if aria else None,
            left=opened.left,
        )
        try:
            summary = await run_task(
                client,
                opened.computer,
                session,
                config,
                check=opened.check,
                observers=[recorder, *observers],
            )
        finally:
            if network is not None:
                await recorder.set_network(await network.finish())
        if ended is not None:
            await ended(opened)
    return Finished(recorder.redaction.secrets.hidden_in(summary), recorder.folder)


async def _program_sha256(client: RouterClient, agent: Agent) -> str | None:
    """Of the program as the router runs it. Raises UnknownProgram when that is another text than
    the file which was named: the run would not test what its author is looking at."""
    known = {program.name: program.sha256 for program in (await client.programs()).programs}
    path = agent.program_file()
    if path is not None:
        here = hashlib.sha256(path.read_bytes()).hexdigest()
        if here != known.get(agent.name):
            runs = f"another text of {agent.name}" if agent.name in known else f"no {agent.name}"
            raise UnknownProgram(
                f"the router at {client.url} runs {runs}, not {path}",
                hint=f"restart it with --programs {path}, or run with --local",
            )
    return known.get(agent.name)


async def _worker_report(client: RouterClient) -> WorkerReport | None:
    """Of the first that is ready, as others may read it: without folders of its machine."""
    workers = (await client.workers()).workers
    reports = [worker.report for worker in workers if worker.state is WorkerState.READY]
    if not reports or reports[0] is None:
        return None
    path = PurePath(reports[0].model)
    told = path.name if path.is_absolute() else reports[0].model
    return reports[0].model_copy(update={"model": told, "hooks": []})
