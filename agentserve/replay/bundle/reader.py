"""Reading a bundle that anyone may have written.

Nothing in a bundle is used as a path but 64 hex digits, no link is followed, every size is bounded
before it is read, and whatever does not fit raises a RecordingError that names the entry.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import ValidationError
from pydantic_core import from_json

from agentserve.core.errors import RecordingError
from agentserve.core.runs import RunSummary
from agentserve.core.screens import ScreenSpace
from agentserve.core.sessions import SessionCreate, TurnResult
from agentserve.replay.bundle.files import check_entry, read_entry
from agentserve.replay.bundle.format import (
    LINE_ADAPTER,
    MAX_LINE_BYTES,
    MAX_LINES,
    MAX_META_BYTES,
    MAX_SCREENSHOT_BYTES,
    MAX_STEPS_BYTES,
    META,
    SCHEMA_VERSION,
    STEPS,
    EndLine,
    Meta,
    StepLine,
    screenshot_entry,
)
from agentserve.replay.bundle.png import png_size


class Turn(NamedTuple):
    """A step in which a session was asked."""

    step: StepLine
    result: TurnResult
    screenshot: str


@dataclass(frozen=True)
class AgentRun:
    """A recording's session, whose every step is a turn."""

    session: SessionCreate
    space: ScreenSpace
    turns: tuple[Turn, ...]


@dataclass(frozen=True)
class Recording:
    """A recording that was read and checked; screenshots stay on the disk until asked for."""

    folder: Path
    meta: Meta
    steps: tuple[StepLine, ...]
    end: RunSummary | None
    """None when the run was cut off before it ended."""

    @property
    def name(self) -> str:
        """Where it lies, for people."""
        return self.folder.name

    @property
    def complete(self) -> bool:
        return self.end is not None

    def agent(self) -> AgentRun:
        """What it tells of an agent of ours. Raises RecordingError when another one acted."""
        session, space = self.meta.session, self.meta.space
        if session is None or space is None:
            raise RecordingError(
                f"{self.folder.name}: no agent of agentserve acted here ({self.meta.source})",
                hint="it can be replayed in a browser: --mode browser",
            )
        turns = []
        for step in self.steps:
            if step.result is None or step.screenshot is None:
                raise RecordingError(
                    f"{self.folder.name}: step {step.index} is no turn of a session: "
                    f"its {'result' if step.result is None else 'screenshot'} is not recorded",
                    hint="an agent's recordings have both: agentserve run makes them",
                )
            turns.append(Turn(step, step.result, step.screenshot))
        return AgentRun(session, space, tuple(turns))

    def screenshot(self, sha256: str) -> bytes:
        """The PNG of a step. Raises RecordingError when its bytes are not those of the hash."""
        entry = screenshot_entry(sha256)
        data = read_entry(self.folder, entry, MAX_SCREENSHOT_BYTES)
        if hashlib.sha256(data).hexdigest() != sha256:
            raise _damaged(self.folder, entry, "its bytes do not have the hash of its name")
        try:
            png_size(data)
        except RecordingError as error:
            raise _damaged(self.folder, entry, error.message) from error
        return data


def read_recording(folder: Path) -> Recording:
    """Read a recording, up to the last whole step when the run was killed.

    Raises RecordingError naming the entry for everything that a kill cannot explain.
    """
    meta = _meta(folder, read_entry(folder, META, MAX_META_BYTES))
    steps, end = _lines(folder, read_entry(folder, STEPS, MAX_STEPS_BYTES))
    for sha in dict.fromkeys(step.screenshot for step in steps if step.screenshot):
        check_entry(folder, screenshot_entry(sha), MAX_SCREENSHOT_BYTES)
    return Recording(folder=folder, meta=meta, steps=steps, end=end)


def _meta(folder: Path, data: bytes) -> Meta:
    try:
        values = from_json(data, allow_inf_nan=False)
    except ValueError as error:
        raise _damaged(folder, META, f"not JSON: {error}") from error
    version = values.get("schema_version") if isinstance(values, dict) else None
    if type(version) is int and version != SCHEMA_VERSION:
        raise RecordingError(
            f"{folder.name}: {META}: schema version {version}, this agentserve reads "
            f"{SCHEMA_VERSION}",
            hint="read it with the agentserve that wrote it, or a newer one",
        )
    try:
        return Meta.model_validate_json(data, strict=True)
    except ValidationError as error:
        raise _damaged(folder, META, _first(error)) from error


def _lines(folder: Path, data: bytes) -> tuple[tuple[StepLine, ...], EndLine | None]:
    lines = data.split(b"\n", MAX_LINES + 1)
    if len(lines) > MAX_LINES + 1:
        raise _damaged(folder, STEPS, f"more than {MAX_LINES} lines")
    if not lines[-1] or _is_torn(lines[-1]):
        lines.pop()
    steps: list[StepLine] = []
    end: EndLine | None = None
    for number, text in enumerate(lines, start=1):
        entry = f"{STEPS} line {number}"
        if end is not None:
            raise _damaged(folder, entry, "there is a line behind the end")
        line = _line(folder, entry, text)
        if isinstance(line, EndLine):
            end = line
        elif line.index != len(steps):
            raise _damaged(folder, entry, f"step {line.index} where step {len(steps)} belongs")
        else:
            steps.append(line)
    return tuple(steps), end


def _is_torn(rest: bytes) -> bool:
    """Whether what stands behind the last newline is a write that was cut off.

    No proper beginning of an object is JSON, so half a line is never mistaken for a whole one.
    """
    try:
        from_json(rest)
    except ValueError:
        return True
    return False


def _line(folder: Path, entry: str, text: bytes) -> StepLine | EndLine:
    if len(text) > MAX_LINE_BYTES:
        raise _damaged(folder, entry, f"longer than {MAX_LINE_BYTES} bytes")
    try:
        return LINE_ADAPTER.validate_json(text, strict=True)
    except ValidationError as error:
        raise _damaged(folder, entry, _first(error)) from error


def _first(error: ValidationError) -> str:
    """The first complaint. Names of unknown fields are the file's: shown quoted and cut."""
    first: Any = error.errors(include_url=False, include_context=False, include_input=False)[0]
    where = ".".join(str(part) for part in first["loc"])
    return f"{where[:120]!r}: {first['msg'][:200]}" if where else first["msg"][:200]


def _damaged(folder: Path, entry: str, reason: str) -> RecordingError:
    return RecordingError(f"{folder.name}: {entry}: {reason}")
