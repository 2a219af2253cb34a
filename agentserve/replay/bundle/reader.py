"""Reading a bundle that anyone may have written.

Nothing in a bundle is used as a path but 64 hex digits, no link is followed, every size is bounded
before it is read, and whatever does not fit raises a RecordingError that names the entry.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import ValidationError
from pydantic_core import from_json

from agentserve.core.errors import RecordingError
from agentserve.core.runs import RunSummary
from agentserve.core.screens import ScreenSpace
from agentserve.core.sessions import SessionCreate, TurnResult
from agentserve.replay.bundle.archive import ZipEntries
from agentserve.replay.bundle.below import recordings_below
from agentserve.replay.bundle.entries import Entries, damaged, label
from agentserve.replay.bundle.folder import FolderEntries
from agentserve.replay.bundle.format import (
    LINE_ADAPTER,
    MAX_ARIA_BYTES,
    MAX_LINE_BYTES,
    MAX_LINES,
    MAX_META_BYTES,
    MAX_NETWORK_BYTES,
    MAX_SCREENSHOT_BYTES,
    MAX_STEPS_BYTES,
    MAX_STEPS_WEIGHT,
    META,
    NETWORK,
    READ_VERSIONS,
    STEPS,
    EndLine,
    Meta,
    StepLine,
    aria_entry,
    screenshot_entry,
)
from agentserve.replay.bundle.json_size import weight_of
from agentserve.replay.bundle.network import parse_har
from agentserve.replay.bundle.png import png_size

_NEAR = 3
"""Folders down in which a recording is looked for, to name one."""


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
    """A recording that was read and checked; its pictures, aria snapshots and network stay where
    they are until asked for. Every method raises RecordingError for an entry that is damaged."""

    entries: Entries
    meta: Meta
    steps: tuple[StepLine, ...]
    end: RunSummary | None
    """None when the run was cut off before it ended."""

    @property
    def name(self) -> str:
        """Where it lies, for people."""
        return self.entries.name

    @property
    def path(self) -> Path:
        """Of the folder or the zip file."""
        return self.entries.path

    @property
    def complete(self) -> bool:
        return self.end is not None

    @property
    def taken(self) -> tuple[StepLine, ...]:
        """The steps without a closing one."""
        return self.steps[:-1] if self.steps and is_closing(self.steps[-1]) else self.steps

    def agent(self) -> AgentRun:
        """What it tells of an agent of ours. Raises RecordingError when another one acted."""
        session, space = self.meta.session, self.meta.space
        if session is None or space is None:
            raise RecordingError(
                f"{self.name}: no agent of agentserve acted here ({self.meta.source})",
                hint="it can be replayed in a browser: --mode browser",
            )
        turns = []
        for step in self.taken:
            if step.result is None or step.screenshot is None:
                raise RecordingError(
                    f"{self.name}: step {step.index} is no turn of a session: "
                    f"its {'result' if step.result is None else 'screenshot'} is not recorded",
                    hint="an agent's recordings have both: agentserve run makes them",
                )
            turns.append(Turn(step, step.result, step.screenshot))
        return AgentRun(session, space, tuple(turns))

    def screenshot(self, sha256: str) -> bytes:
        """The PNG of a step; its head was looked at, and it was not decoded."""
        entry = screenshot_entry(sha256)
        data = self._hashed(entry, sha256, MAX_SCREENSHOT_BYTES)
        with self._named(entry):
            png_size(data)
        return data

    def aria(self, sha256: str) -> str:
        """The aria snapshot of a step, as YAML."""
        entry = aria_entry(sha256)
        data = self._hashed(entry, sha256, MAX_ARIA_BYTES)
        try:
            return data.decode()
        except UnicodeDecodeError as error:
            raise damaged(self.name, entry, "not UTF-8") from error

    def network(self) -> bytes | None:
        """The HAR file, in which all bodies are inside; None when there is none."""
        if not self.entries.has(NETWORK):
            return None
        data = self.entries.read(NETWORK, MAX_NETWORK_BYTES)
        with self._named(NETWORK):
            parse_har(data)
        return data

    @contextmanager
    def _named(self, entry: str) -> Iterator[None]:
        """Errors of what looks at bytes alone, with the entry's name."""
        try:
            yield
        except RecordingError as error:
            raise damaged(self.name, entry, error.message, error.hint) from error

    def _hashed(self, entry: str, sha256: str, limit: int) -> bytes:
        data = self.entries.read(entry, limit)
        if hashlib.sha256(data).hexdigest() != sha256:
            raise damaged(self.name, entry, "its bytes do not have the hash of its name")
        return data


def is_closing(last: StepLine) -> bool:
    """Whether a recording's last step only shows the page as it was left."""
    decided = last.result is not None or last.performed is not None or last.thought
    return not decided and last.outcome.status == "ok"


def read_recording(path: Path) -> Recording:
    """Read a recording from its folder, or from a zip file of it, which is not extracted; up to the
    last whole step when the run was killed.

    Raises RecordingError naming the entry for everything that a kill cannot explain.
    """
    entries = open_entries(path)
    meta = read_meta(entries)
    steps, end = read_lines(entries)
    for entry, limit in named_entries(steps).items():
        entries.check(entry, limit)
    return Recording(entries=entries, meta=meta, steps=steps, end=end)


def open_entries(path: Path) -> Entries:
    """Raises RecordingError when there is neither a folder of a recording nor a zip file."""
    # pathlib raises for a name that is longer than any can be
    if os.path.isdir(path):
        entries = FolderEntries(path)
        if not entries.has(META) and not entries.has(STEPS):
            raise _no_recording(path)
        return entries
    if not os.path.exists(path):
        raise RecordingError(
            f"{label(path)}: there is no such folder or file", hint="recordings/ has those of runs"
        )
    return ZipEntries(path)


def _no_recording(folder: Path) -> RecordingError:
    below = next(recordings_below(folder, _NEAR), None)
    hint = f"a recording is a folder with a {META}, or a zip of one"
    return RecordingError(
        f"{label(folder)} is no recording: there is no {META} in it",
        hint=hint if below is None else f"it holds some: name one of them, as {below}",
        details={"entry": META},
    )


def named_entries(steps: Iterable[StepLine]) -> dict[str, int]:
    """The entries that steps name, each with the most bytes it may have."""
    named: dict[str, int] = {}
    for step in steps:
        if step.screenshot is not None:
            named[screenshot_entry(step.screenshot)] = MAX_SCREENSHOT_BYTES
        if step.aria is not None:
            named[aria_entry(step.aria)] = MAX_ARIA_BYTES
    return named


def read_meta(entries: Entries) -> Meta:
    data = entries.read(META, MAX_META_BYTES)
    try:
        values = from_json(data, allow_inf_nan=False)
    except ValueError as error:
        raise damaged(entries.name, META, f"not JSON: {error}") from error
    version = values.get("schema_version") if isinstance(values, dict) else None
    if type(version) is int and version not in READ_VERSIONS:
        raise RecordingError(
            f"{entries.name}: {META}: schema version {version}, this agentserve reads "
            f"{READ_VERSIONS[0]} to {READ_VERSIONS[-1]}",
            hint="read it with the agentserve that wrote it, or a newer one",
            details={"entry": META},
        )
    try:
        return Meta.model_validate_json(data, strict=True)
    except ValidationError as error:
        raise damaged(entries.name, META, _first(error)) from error


def read_lines(entries: Entries) -> tuple[tuple[StepLine, ...], EndLine | None]:
    data = entries.read(STEPS, MAX_STEPS_BYTES)
    lines = data.split(b"\n", MAX_LINES + 1)
    if len(lines) > MAX_LINES + 1:
        raise damaged(entries.name, STEPS, f"more than {MAX_LINES} lines")
    if weight_of(data, MAX_STEPS_WEIGHT) > MAX_STEPS_WEIGHT:
        raise damaged(entries.name, STEPS, "too many values in it to be held in memory")
    if not lines[-1] or _is_torn(lines[-1]):
        lines.pop()
    steps: list[StepLine] = []
    end: EndLine | None = None
    for number, text in enumerate(lines, start=1):
        entry = f"{STEPS} line {number}"
        if end is not None:
            raise damaged(entries.name, entry, "there is a line behind the end")
        line = _line(entries.name, entry, text)
        if isinstance(line, EndLine):
            end = line
        elif line.index != len(steps):
            raise damaged(entries.name, entry, f"step {line.index} where step {len(steps)} belongs")
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


def _line(name: str, entry: str, text: bytes) -> StepLine | EndLine:
    if len(text) > MAX_LINE_BYTES:
        raise damaged(name, entry, f"longer than {MAX_LINE_BYTES} bytes")
    try:
        return LINE_ADAPTER.validate_json(text, strict=True)
    except ValidationError as error:
        raise damaged(name, entry, _first(error)) from error


def _first(error: ValidationError) -> str:
    """The first complaint. Names of unknown fields are the file's: shown quoted and cut."""
    first: Any = error.errors(include_url=False, include_context=False, include_input=False)[0]
    where = ".".join(str(part) for part in first["loc"])
    return f"{where[:120]!r}: {first['msg'][:200]}" if where else first["msg"][:200]
