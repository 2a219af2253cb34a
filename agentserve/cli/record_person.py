"""A person's session in a browser, written down as a recording."""

from __future__ import annotations

import asyncio
import secrets as tokens
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from playwright.async_api import Browser

from agentserve import __version__
from agentserve.browser.computer import PlaywrightComputer, open_computer
from agentserve.browser.network import NetworkRecording
from agentserve.browser.person import PersonSession, PersonStep
from agentserve.browser.policy import origin_of
from agentserve.core.elements import PageBox
from agentserve.core.errors import RecordingError
from agentserve.core.pages import PageSettings
from agentserve.core.screens import Size
from agentserve.replay import EndLine, Meta, RecordingWriter, StepLine
from agentserve.replay.redaction.network import hidden_in_har
from agentserve.replay.redaction.redaction import Redaction
from agentserve.replay.redaction.secrets import MIN_SECRET, Secrets


@dataclass(frozen=True)
class PersonOptions:
    """What is recorded, and how."""

    url: str
    out: Path
    viewport: Size
    task: str = ""
    allow: tuple[str, ...] = ()
    settings: PageSettings = PageSettings(animations=False, fonts_awaited=True)
    masks: tuple[PageBox, ...] = ()
    secrets: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class PersonRecorded:
    folder: Path
    steps: int
    secrets: tuple[str, ...]
    """Names that stand for what was typed into password fields."""
    refused: int
    """Messages from pages that were none: somebody tampers with the browser, or acts too fast."""


OnStart = Callable[[PersonSession, PlaywrightComputer], None]


async def record_person(
    browser: Browser,
    options: PersonOptions,
    *,
    stop: asyncio.Event,
    on_start: OnStart = lambda session, computer: None,
    on_step: Callable[[StepLine], None] = lambda line: None,
) -> PersonRecorded:
    """Record until the last tab is closed, ``stop`` is set, or the task is cancelled: that ends a
    recording as well as anything, and is not raised.

    ``on_start`` is called when the person may begin. Raises BrowserFailed and RecordingError; what
    was recorded until then is readable.
    """
    network = NetworkRecording() if options.settings.network == "recorded" else None
    async with open_computer(
        browser,
        options.url,
        viewport=options.viewport,
        allow=options.allow,
        settings=options.settings,
        masks=options.masks,
        network=network,
    ) as computer:
        await computer.load()
        book = await asyncio.to_thread(_Book, options, computer.url, on_step)
        session = PersonSession(computer, book.add)
        await session.begin()
        on_start(session, computer)
        await _until(session, stop)
        await session.finish()
        try:
            if network is not None:
                await _keep_network(book.writer, network, session.hidden.values)
        finally:
            await book.end()
    return PersonRecorded(
        book.writer.folder, book.steps, tuple(session.hidden.values), session.refused
    )


async def _keep_network(
    writer: RecordingWriter, network: NetworkRecording, hidden: Mapping[str, str]
) -> None:
    """Raises RecordingError, with nothing kept, when a password could not be found in it."""
    har = await network.finish()
    if any(len(value) < MIN_SECRET for value in hidden.values()):
        raise RecordingError(
            "network.har is left out: a password is too short to be told from other text in it",
            hint="record without --har, or with a longer password",
        )
    har = await asyncio.to_thread(hidden_in_har, har, Secrets(hidden))
    await asyncio.to_thread(writer.set_network, har)


async def _until(session: PersonSession, stop: asyncio.Event) -> None:
    running = asyncio.ensure_future(session.run())
    stopped = asyncio.ensure_future(stop.wait())
    try:
        await asyncio.wait({running, stopped}, return_when=asyncio.FIRST_COMPLETED)
    except asyncio.CancelledError:
        # from here on the recording is brought to its end
        if (task := asyncio.current_task()) is not None:
            task.uncancel()
    stopped.cancel()
    if running.done():
        running.result()
    else:
        running.cancel()
        await asyncio.wait({running})


class _Book:
    """The recording's writer. Blocking to make."""

    def __init__(
        self, options: PersonOptions, url: str, on_step: Callable[[StepLine], None]
    ) -> None:
        now = datetime.now(UTC)
        meta = Meta(
            id=f"{now:%Y%m%d-%H%M%S}-{tokens.token_hex(3)}",
            created_at=now.replace(microsecond=0),
            agentserve_version=__version__,
            source="person",
            task=options.task,
            url=url,
            allow=[origin_of(url) for url in options.allow],
            viewport=options.viewport,
            page=options.settings,
        )
        redaction = Redaction(options.masks, Secrets(options.secrets))
        self.writer = RecordingWriter(options.out, meta, redaction)
        self.steps = 0
        self._on_step = on_step

    async def add(self, step: PersonStep) -> None:
        line = await asyncio.to_thread(self._write, step)
        self.steps += 1
        self._on_step(line)

    def _write(self, step: PersonStep) -> StepLine:
        view = step.view
        line = StepLine(
            index=self.steps,
            url=step.url,
            screenshot=self.writer.add_screenshot(view.picture) if view else None,
            aria=self.writer.add_aria(view.aria) if view else None,
            performed=step.act.action,
            target=step.act.target,
            to_target=step.act.to_target,
            outcome=step.outcome,
        )
        self.writer.append(line)
        return line

    async def end(self) -> None:
        await asyncio.to_thread(self.writer.append, EndLine(end="closed", turns=self.steps))
