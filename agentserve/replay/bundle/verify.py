"""Checks a whole bundle, and goes on where a reader would stop: what is wrong, entry by entry."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

from agentserve.core.errors import RecordingError
from agentserve.core.model import Wire
from agentserve.replay.bundle.format import META, STEPS, EndLine, Meta, StepLine
from agentserve.replay.bundle.reader import (
    Recording,
    open_entries,
    read_lines,
    read_meta,
)


class Finding(Wire):
    """One thing that is wrong with a bundle, or only strange."""

    entry: str
    """Empty: the bundle as a whole."""
    severity: Literal["error", "warning"]
    """``error``: a replay cannot rely on it."""
    message: str
    hint: str = ""
    """What to do."""


class Findings(list[Finding]):
    """Collects findings of one bundle."""

    def add(self, entry: str, message: str, hint: str = "", *, warning: bool = False) -> None:
        severity = "warning" if warning else "error"
        self.append(Finding(entry=entry, severity=severity, message=message, hint=hint))

    @contextmanager
    def caught(self, entry: str = "") -> Iterator[None]:
        """Turns a RecordingError into a finding and ends the block."""
        try:
            yield
        except RecordingError as error:
            self.add(error.details.get("entry", entry), error.message, error.hint)


def verify(path: Path) -> list[Finding]:
    """Everything that is wrong with the bundle in a folder or a zip file; empty: nothing.

    Reads all of it. Raises nothing: a path without a bundle is a finding, too.
    """
    findings = Findings()
    with findings.caught():
        entries = open_entries(path)
        meta: Meta | None = None
        steps: tuple[StepLine, ...] = ()
        end: EndLine | None = None
        with findings.caught(META):
            meta = read_meta(entries)
        with findings.caught(STEPS):
            steps, end = read_lines(entries)
        if meta is not None:
            _check_steps(Recording(entries=entries, meta=meta, steps=steps, end=end), findings)
    return findings


def _check_steps(recording: Recording, findings: Findings) -> None:
    for step in recording.steps:
        with findings.caught():
            if step.screenshot is not None:
                recording.screenshot(step.screenshot)
            if step.aria is not None:
                recording.aria(step.aria)
