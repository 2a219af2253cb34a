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
from agentserve.browser.person import Hidden, PersonSession, PersonStep
from agentserve.browser.policy import origin_of
from agentserve.cli.person_secrets import check_findable, secrets_of
from agentserve.core.elements import PageBox
from agentserve.core.errors import BrowserFailed, RecordingError
from agentserve.core.pages import PageSettings
from agentserve.core.screens import Size
from agentserve.core.secret_names import placeholders_in
from agentserve.replay import EndLine, Meta, RecordingWriter, StepLine, read_recording
from agentserve.replay.redaction.afterwards import hide_afterwards
from agentserve.replay.redaction.redaction import Redaction


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
    """Names that stand for secrets in what was done: a replay is given their values."""
    refused: int
    """Messages from pages that were none: somebody tampers with the browser, or acts too fast."""
    warnings: tuple[str, ...] = ()
    """What of the recording is not as it was asked for, in sentences."""


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
    was recorded until then is readable. Where the network cannot be kept, that is a warning.
    """
    network = NetworkRecording(growing=True) if options.settings.network == "recorded" else None
    warnings: list[str] = []
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
        hidden = Hidden(options.secrets)
        book = await asyncio.to_thread(_Book, options, computer.url, hidden, on_step)
        session = PersonSession(computer, book.add, hidden)
        await session.begin()
        on_start(session, computer)
        await _until(session, stop)
        try:
            await session.finish()
            if network is not None:
                warnings += await _keep_network(book, network)
        finally:
            await asyncio.to_thread(book.end)
    return PersonRecorded(
        book.writer.folder, book.steps, book.needed, session.refused, tuple(warnings)
    )


async def _keep_network(book: _Book, network: NetworkRecording) -> list[str]:
    """Returns what is to be said of it."""
    try:
        await asyncio.to_thread(book.set_network, await network.finish())
    except (BrowserFailed, RecordingError) as error:
        hint = f" ({error.hint})" if error.hint else ""
        return [f"network.har is left out: {error.message}{hint}; a replay needs the live pages"]
    if network.missing:
        return [
            f"the browser was closed before {network.missing} answers were kept: network.har is "
            "without them"
        ]
    return []


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
    """The recording's writer. Blocking, but for ``add``.

    Passwords become known while it is written: each write hides those that are known by then, and
    at the end the others are hidden in what was written before.
    """

    def __init__(
        self,
        options: PersonOptions,
        url: str,
        hidden: Hidden,
        on_step: Callable[[StepLine], None],
    ) -> None:
        now = datetime.now(UTC)
        self._meta = Meta(
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
        self._options = options
        self._hidden = hidden
        self._network_kept = False
        self.writer = RecordingWriter(options.out, self._meta, self._redaction())
        self.steps = 0
        self.needed: tuple[str, ...] = ()
        """Names of the secrets in what was done. Known at the end."""
        self._on_step = on_step

    async def add(self, step: PersonStep) -> None:
        line = await asyncio.to_thread(self._write, step)
        self.steps += 1
        self._on_step(line)

    def set_network(self, har: bytes) -> None:
        """Raises RecordingError, with nothing kept."""
        check_findable(self._hidden)
        self.writer.redaction = self._redaction()
        self.writer.set_network(har)
        self._network_kept = True

    def end(self) -> None:
        """Raises RecordingError."""
        redaction = self.writer.redaction = self._redaction()
        if redaction.secrets:
            hide_afterwards(self.writer.folder, redaction.secrets)
        if not self._network_kept and self._meta.page.network == "recorded":
            page = self._meta.page.model_copy(update={"network": "live"})
            self._meta = self._meta.model_copy(update={"page": page})
        self.writer.amend(self._meta)
        steps = read_recording(self.writer.folder).steps
        acts = (step.performed.model_dump_json() for step in steps if step.performed)
        self.needed = tuple(placeholders_in("".join(acts)))
        self.writer.append(EndLine(end="closed", turns=self.steps))

    def _redaction(self) -> Redaction:
        return Redaction(self._options.masks, secrets_of(self._options.secrets, self._hidden))

    def _write(self, step: PersonStep) -> StepLine:
        self.writer.redaction = self._redaction()
        view = step.view
        line = StepLine(
            index=self.steps,
            url=step.url,
            screenshot=self.writer.add_screenshot(view.picture) if view else None,
            aria=self.writer.add_aria(view.aria) if view else None,
            pointer=view.pointer if view else None,
            performed=step.act and step.act.action,
            target=step.act and step.act.target,
            to_target=step.act and step.act.to_target,
            outcome=step.outcome,
        )
        line = self.writer.redaction.secrets.hidden_in(line)
        self.writer.append(line)
        return line
