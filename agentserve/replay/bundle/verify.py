"""Checks a whole bundle, and goes on where a reader would stop: what is wrong, entry by entry."""

from __future__ import annotations

import posixpath
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

from agentserve.core.errors import BadScreenshot, RecordingError
from agentserve.core.model import Wire
from agentserve.core.screens import Size
from agentserve.replay.bundle.entries import Entries, damaged, shown
from agentserve.replay.bundle.format import (
    EXPECT,
    MAX_HEATMAP_BYTES,
    META,
    NETWORK,
    STEPS,
    StepLine,
    aria_entry,
    entry_limit,
    heatmap_entry,
    screenshot_entry,
)
from agentserve.replay.bundle.reader import (
    Recording,
    named_entries,
    open_entries,
    read_lines,
    read_meta,
)
from agentserve.replay.bundle.sense import check_meta, check_steps
from agentserve.replay.compare.expectations import Expectations, expectations_of
from agentserve.vision.screenshots import pixels_of


class Finding(Wire):
    """One thing that is wrong with a bundle, or only strange."""

    entry: str
    """Empty: the bundle as a whole."""
    severity: Literal["error", "warning"]
    """``error``: it is damaged, and a replay cannot rely on it."""
    message: str
    hint: str = ""
    """What to do."""


class _Findings:
    def __init__(self) -> None:
        self.found: list[Finding] = []

    def error(self, error: RecordingError, entry: str = "") -> None:
        entry = error.details.get("entry", entry)
        self.found.append(
            Finding(entry=entry, severity="error", message=error.message, hint=error.hint)
        )

    def warn(self, name: str, entry: str, reason: str, hint: str) -> None:
        message = f"{name}: {shown(entry)}: {reason}"
        self.found.append(
            Finding(entry=shown(entry), severity="warning", message=message, hint=hint)
        )

    @contextmanager
    def caught(self, entry: str = "") -> Iterator[None]:
        """Turns a RecordingError into a finding, and ends the block."""
        try:
            yield
        except RecordingError as error:
            self.error(error, entry)


def verify(path: Path) -> list[Finding]:
    """Everything that is wrong with the bundle in a folder or a zip file; empty: nothing.

    Reads all of it, decodes every picture, and raises nothing: where there is no bundle, that is a
    finding.
    """
    findings = _Findings()
    with findings.caught():
        entries = open_entries(path)
        meta = steps = end = None
        with findings.caught(META):
            meta = read_meta(entries)
        with findings.caught(STEPS):
            steps, end = read_lines(entries)
            if end is None:
                findings.warn(
                    entries.name,
                    STEPS,
                    "the recording was cut off: there is no line about its end",
                    "it replays up to there; record it again to have all of it",
                )
        used = None
        if meta is not None:
            recording = Recording(entries=entries, meta=meta, steps=steps or (), end=end)
            rules = _check_contents(recording, findings)
            if steps is not None and rules is not None:
                used = _used(steps, rules)
        with findings.caught():
            _check_names(entries, used, findings)
    return findings.found


def _used(steps: Sequence[StepLine], rules: Expectations) -> set[str]:
    """What belongs to something, of all that a bundle may hold."""
    return {
        *(META, STEPS, NETWORK, EXPECT),
        *named_entries(steps),
        *(heatmap_entry(step.index) for step in steps),
        *(screenshot_entry(sha) for sha in _accepted(rules)),
        *(aria_entry(sha) for step in rules.steps for sha in step.accepted_aria),
    }


def _accepted(rules: Expectations) -> list[str]:
    return [sha for step in rules.steps for sha in step.accepted_screens]


def _check_names(entries: Entries, used: set[str] | None, findings: _Findings) -> None:
    """What is there, and belongs to nothing. ``used`` None: that is not known."""
    folded: dict[str, str] = {}
    for entry in entries.names():
        if (other := folded.setdefault(entry.casefold(), entry)) != entry:
            reason = f"differs from {shown(other)} by case alone"
            findings.error(damaged(entries.name, entry, reason, "remove one of the two"))
        if entry_limit(entry) is None:
            _check_foreign(entries, entry, findings)
        elif used is not None and entry not in used:
            hint = "remove it, if nobody needs it: a replay does not"
            findings.warn(entries.name, entry, "no step names it", hint)


def _check_foreign(entries: Entries, entry: str, findings: _Findings) -> None:
    name, hint = posixpath.basename(entry), "it is left alone; it can be removed"
    if entry.endswith("/"):
        findings.warn(entries.name, entry, "no folder of a recording", hint)
        return
    try:
        entries.check(entry, 2**62)
    except RecordingError as error:
        findings.error(error)
        return
    left = name.startswith(".") and entry_limit(entry.replace(name, name[1:].rpartition(".")[0]))
    reason = "left by a write that was cut off" if left else "no entry of a recording"
    findings.warn(entries.name, entry, reason, hint)


def _check_contents(recording: Recording, findings: _Findings) -> Expectations | None:
    """Returns the rules of a replay; None when they cannot be read."""
    meta, name = recording.meta, recording.name
    har = recording.entries.has(NETWORK)
    for reason in check_meta(meta):
        findings.error(damaged(name, META, reason, "record it again, or correct meta.json"))
    if meta.page.network == "recorded" and not har:
        if recording.complete:
            reason = "is missing, though meta.json says that the network was recorded"
            findings.error(damaged(name, NETWORK, reason))
        else:
            reason = "was not written yet when the recording was cut off"
            findings.warn(name, NETWORK, reason, "a replay needs the live pages")
    with findings.caught():
        recording.network()
    rules = None
    with findings.caught(EXPECT):
        rules = expectations_of(recording)
    sizes = _check_pictures(recording, rules or Expectations(), findings)
    for line in check_steps(meta, recording.steps, sizes):
        entry = f"{STEPS} line {line.number}"
        if line.certain:
            findings.error(damaged(name, entry, line.reason, line.hint))
        else:
            findings.warn(name, entry, line.reason, line.hint)
    return rules


def _check_pictures(
    recording: Recording, rules: Expectations, findings: _Findings
) -> dict[str, Size]:
    """Sizes of the screenshots that are whole, by their hashes."""
    sizes: dict[str, Size] = {}
    screens = [step.screenshot for step in recording.steps if step.screenshot]
    arias = [step.aria for step in recording.steps if step.aria]
    for sha in dict.fromkeys([*screens, *_accepted(rules)]):
        with findings.caught():
            data = recording.screenshot(sha)
            sizes[sha] = _decoded_size(recording.name, screenshot_entry(sha), data)
    arias += [sha for step in rules.steps for sha in step.accepted_aria]
    for sha in dict.fromkeys(arias):
        with findings.caught():
            recording.aria(sha)
    for step in recording.steps:
        entry = heatmap_entry(step.index)
        if recording.entries.has(entry):
            with findings.caught():
                data = recording.entries.read(entry, MAX_HEATMAP_BYTES)
                _decoded_size(recording.name, entry, data)
    return sizes


def _decoded_size(name: str, entry: str, data: bytes) -> Size:
    """Decodes a PNG whose head says that it is not too large."""
    try:
        pixels = pixels_of(data, max_bytes=len(data), what="the picture", formats=("PNG",))
    except BadScreenshot as error:
        raise damaged(name, entry, error.message) from error
    return Size(width=pixels.shape[1], height=pixels.shape[0])
