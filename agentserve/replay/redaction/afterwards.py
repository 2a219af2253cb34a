"""Secrets that become known after a part of the recording has been written."""

from __future__ import annotations

import hashlib
from pathlib import Path

from agentserve.core.errors import RecordingError
from agentserve.replay.bundle.files import write_whole
from agentserve.replay.bundle.format import ARIA, LINE_ADAPTER, STEPS, StepLine, aria_entry
from agentserve.replay.redaction.secrets import Secrets


def hide_afterwards(folder: Path, secrets: Secrets) -> None:
    """Hide them in the steps and aria snapshots of a recording that nobody writes meanwhile.

    The folder is our own: it is not checked. Blocking. Raises RecordingError when the disk refuses,
    or when a text does not fit any more; a kill leaves a readable recording.
    """
    try:
        renamed = _hide_in_aria(folder, secrets)
        _hide_in_steps(folder, secrets, renamed)
        for old in renamed:
            (folder / aria_entry(old)).unlink()
    except OSError as error:
        raise RecordingError(
            f"cannot write the recording {folder}: {error.strerror or error}"
        ) from error


def _hide_in_aria(folder: Path, secrets: Secrets) -> dict[str, str]:
    """Writes what changes under its new hash, beside the old one; returns old and new hashes."""
    renamed = {}
    for path in sorted((folder / ARIA).glob("*.yml")):
        before = path.read_text(encoding="utf-8")
        after = secrets.hidden(before)
        if after != before:
            data = after.encode()
            renamed[path.stem] = hashlib.sha256(data).hexdigest()
            write_whole(folder / aria_entry(renamed[path.stem]), data)
    return renamed


def _hide_in_steps(folder: Path, secrets: Secrets, renamed: dict[str, str]) -> None:
    path = folder / STEPS
    before = path.read_bytes()
    lines = []
    for text in before.splitlines():
        line = secrets.hidden_in(LINE_ADAPTER.validate_json(text))
        if isinstance(line, StepLine) and line.aria in renamed:
            line = line.model_copy(update={"aria": renamed[line.aria]})
        lines.append(line.model_dump_json().encode() + b"\n")
    after = b"".join(lines)
    if after != before:
        write_whole(path, after)
