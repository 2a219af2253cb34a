"""Recording a run as it happens."""

from __future__ import annotations

import asyncio
import secrets as tokens
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path

from agentserve import __version__
from agentserve.core.elements import PageBox
from agentserve.core.errors import BrowserFailed, RecordingError
from agentserve.core.pages import PageSettings
from agentserve.core.pruning import Compression
from agentserve.core.runs import RunSummary, Step
from agentserve.core.sessions import Session, creation_of
from agentserve.core.workers import WorkerReport
from agentserve.replay.bundle.format import MAX_ARIA_BYTES, EndLine, Meta, ScenarioRef, StepLine
from agentserve.replay.bundle.writer import RecordingWriter
from agentserve.replay.heatmap import draw_heatmap
from agentserve.replay.redaction.redaction import Redaction
from agentserve.replay.redaction.secrets import Secrets


class Recorder:
    """A core.runs.RunObserver that writes ``root/<id>``; one per run.

    A call returns when what it was told is on the disk. Raises RecordingError when it cannot be
    written, and when calls do not come in the observer's order.
    """

    def __init__(
        self,
        root: Path,
        *,
        id: str | None = None,
        scenario: ScenarioRef | None = None,
        program_sha256: str | None = None,
        worker: WorkerReport | None = None,
        masks: Sequence[PageBox] = (),
        secrets: Mapping[str, str] | None = None,
        allow: Sequence[str] = (),
        page: PageSettings | None = None,
        aria: Callable[[], Awaitable[str]] | None = None,
        left: Callable[[], Awaitable[tuple[str, bytes]]] | None = None,
    ) -> None:
        """``masks`` are in CSS px of the viewport, ``secrets`` values by their names: neither
        reaches the disk. ``allow`` are origins. ``aria`` gives the page's aria snapshot, ``left``
        the address and a PNG of the page as the run has left it; both raise BrowserFailed. Without
        them there are none in the recording.

        Raises InvalidRequest for secrets that no text can be searched for.
        """
        now = datetime.now(UTC)
        self.id = id or f"{now:%Y%m%d-%H%M%S}-{tokens.token_hex(3)}"
        self.folder = root / self.id
        self._root = root
        self._facts = {
            "id": self.id,
            "created_at": now.replace(microsecond=0),
            "agentserve_version": __version__,
            "scenario": scenario,
            "program_sha256": program_sha256,
            "worker": worker,
            "allow": list(allow),
            "page": page or PageSettings(),
        }
        self._aria, self._left = aria, left
        self.redaction = Redaction(tuple(masks), Secrets(secrets or {}))
        self._writer: RecordingWriter | None = None
        self._screenshot: tuple[int, str, str | None] | None = None
        """Index, its hash, and that of the aria snapshot."""
        self._image: bytes | None = None
        self._last: Step | None = None
        self._thins = False
        """Whether the session leaves out visual tokens: then each step gets a heat map."""

    async def started(self, session: Session, url: str) -> None:
        meta = Meta(
            **self._facts,
            url=url,
            task=session.task,
            viewport=session.space.css,
            scale=session.space.scale,
            session=creation_of(session),
            session_id=session.id,
            space=session.space,
        )
        self._thins = session.compression != Compression()
        self._writer = await asyncio.to_thread(RecordingWriter, self._root, meta, self.redaction)

    async def screenshot(self, index: int, image: bytes) -> None:
        writer = self._started()
        image = await asyncio.to_thread(writer.masked, image)
        sha = await asyncio.to_thread(writer.add_screenshot, image)
        self._screenshot, self._image = (index, sha, await self._look()), image

    async def _look(self) -> str | None:
        """Without one where the page does not answer or has too much: the run goes on."""
        if self._aria is None:
            return None
        try:
            snapshot = await self._aria()
        except BrowserFailed:
            return None
        if len(snapshot.encode()) > MAX_ARIA_BYTES:
            return None
        return await asyncio.to_thread(self._started().add_aria, snapshot)

    async def step(self, step: Step) -> None:
        if self._screenshot is None or self._screenshot[0] != step.index:
            raise RecordingError(f"step {step.index} came without its screenshot")
        _, screenshot, aria = self._screenshot
        line = StepLine.model_validate({**dict(step), "screenshot": screenshot, "aria": aria})
        await asyncio.to_thread(self._started().append, line)
        self._last = step
        if self._thins and step.result.token_map is not None:
            assert self._image is not None
            png = await asyncio.to_thread(draw_heatmap, self._image, step.result.token_map)
            await asyncio.to_thread(self._started().add_heatmap, step.index, png)

    async def set_network(self, har: bytes) -> None:
        """What the pages fetched. Without effect when the run ended before it started."""
        if self._writer is not None:
            await asyncio.to_thread(self._writer.set_network, har)

    async def ended(self, summary: RunSummary) -> None:
        """Without effect when the run ended before it started: there is nothing to record."""
        if self._writer is not None:
            if summary.end in ("task_ended", "max_turns"):
                await self._close()
            line = EndLine.model_validate(dict(summary))
            await asyncio.to_thread(self._writer.append, line)

    async def _close(self) -> None:
        """What the last act has led to, which no turn has looked at."""
        if self._last is None or self._last.performed is None or self._left is None:
            return
        index = self._last.index + 1
        try:
            url, image = await self._left()
        except BrowserFailed:
            return
        await self.screenshot(index, image)
        assert self._screenshot is not None
        _, screenshot, aria = self._screenshot
        line = StepLine(index=index, url=url, screenshot=screenshot, aria=aria)
        await asyncio.to_thread(self._started().append, line)

    def _started(self) -> RecordingWriter:
        if self._writer is None:
            raise RecordingError(f"the recording {self.id} was not started")
        return self._writer
