"""What an importer gives, and how it becomes a bundle."""

from __future__ import annotations

import hashlib
import secrets
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from pydantic import JsonValue

from agentserve import __version__
from agentserve.core.errors import RecordingError
from agentserve.core.screens import Size
from agentserve.replay.bundle.files import sync_folder
from agentserve.replay.bundle.format import (
    MAX_LINE_BYTES,
    MAX_STEPS_BYTES,
    EndLine,
    Imported,
    Meta,
    StepLine,
)
from agentserve.replay.bundle.sense import check_steps
from agentserve.replay.bundle.writer import RecordingWriter
from agentserve.replay.redaction.passwords import typed_in_pieces
from agentserve.replay.redaction.redaction import Redaction
from agentserve.replay.redaction.secrets import names_in

MAX_STEPS = 5000


@dataclass(frozen=True)
class Taken:
    """A recording of another tool, with all that a bundle has a place for."""

    format: str
    viewport: Size
    steps: tuple[StepLine, ...]
    version: str = ""
    task: str = ""
    url: str = ""
    scale: float = 1.0
    created_at: datetime | None = None
    """None: the source does not say."""
    end: EndLine | None = None
    screenshots: Mapping[str, bytes] = field(default_factory=dict)
    """PNGs by the SHA-256 that steps name."""
    lost: tuple[str, ...] = ()
    """What could not be taken over, in sentences."""
    passwords: tuple[int, ...] = ()
    """Indices of the steps whose element the source knows for a password's field."""
    blurred: bool = False
    """Whether its screens are not, px by px, what a browser shows: frames of a screencast."""
    data: JsonValue = None
    """Of the whole, for an export into the same format."""


def write_taken(root: Path, name: str, taken: Taken, redaction: Redaction | None = None) -> Path:
    """Write it as the bundle ``root/<name>``, which appears when all of it is on the disk. Raises
    RecordingError, with nothing written."""
    if not taken.steps:
        raise RecordingError(f"the {taken.format} recording has no steps")
    if len(taken.steps) > MAX_STEPS:
        raise RecordingError(f"{len(taken.steps)} steps; {MAX_STEPS} is most")
    meta = Meta(
        id=name,
        created_at=taken.created_at or datetime.now(UTC).replace(microsecond=0),
        agentserve_version=__version__,
        source="import",
        imported=Imported(
            format=taken.format, version=taken.version, lost=list(taken.lost), data=taken.data
        ),
        task=taken.task,
        url=taken.url,
        viewport=taken.viewport,
        scale=taken.scale,
        # of a recording that had them taken out already, as our own exports have
        secrets=names_in("".join(said(step) for step in taken.steps)),
    )
    _check_sizes(taken)
    if redaction is not None and (found := typed_in_pieces(taken.steps, redaction.secrets)):
        raise RecordingError(
            f"steps {found[0]} to {found[-1]} type a secret in pieces: it cannot be hidden in them",
            hint="record it again with the secret pasted, or filled in at once",
        )
    for found in check_steps(meta, taken.steps, {}):
        if found.certain:
            raise RecordingError(f"step {found.number - 1}: {found.reason}")
    building = root / f".{name}.{secrets.token_hex(4)}"
    try:
        writer = RecordingWriter(building, meta, redaction, synced=False)
        # masks change a picture, and with it its hash
        stored = {
            hashlib.sha256(png).hexdigest(): writer.add_screenshot(png)
            for png in taken.screenshots.values()
        }
        for step in taken.steps:
            sha = step.screenshot and stored.get(step.screenshot, step.screenshot)
            writer.append(step.model_copy(update={"screenshot": sha}))
        writer.append(taken.end or EndLine(end="closed", turns=len(taken.steps)))
        writer.sync()
        return _moved(writer.folder, root)
    finally:  # after an interrupt as well
        shutil.rmtree(building, ignore_errors=True)


def said(step: StepLine) -> str:
    """All texts of what is done in a step."""
    return step.performed.model_dump_json() if step.performed is not None else ""


def _moved(folder: Path, root: Path) -> Path:
    try:
        whole = folder.rename(root / folder.name)
        sync_folder(root)
    except OSError as error:
        raise RecordingError(
            f"cannot write the recording {root / folder.name}: {error.strerror or error}"
        ) from error
    return whole


def _check_sizes(taken: Taken) -> None:
    """Raises RecordingError for steps that no reader would read again."""
    total = 0
    for step in taken.steps:
        size = len(step.model_dump_json().encode()) + 1
        total += size
        if size > MAX_LINE_BYTES:
            raise RecordingError(f"step {step.index} has {size} bytes; {MAX_LINE_BYTES} is most")
    if total > MAX_STEPS_BYTES - MAX_LINE_BYTES:  # the last line is the end's
        raise RecordingError(
            f"the steps have {total} bytes together; {MAX_STEPS_BYTES - MAX_LINE_BYTES} is most",
            hint="import a part of the recording",
        )
