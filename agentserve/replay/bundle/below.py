"""Where recordings lie: what looks like one, and those below a folder. One way of looking for all:
replays, tests, checks."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from agentserve.core.errors import RecordingError
from agentserve.replay.bundle.archive import is_archived
from agentserve.replay.bundle.format import META

MAX_DEPTH = 6
"""Folders below the one that was named."""
_SKIPPED = {"node_modules", "__pycache__", "screenshots", "heatmaps", "aria"}


def is_recording(path: Path) -> bool:
    """Whether it looks like one, by the names in it alone: many tools make zip files. One whose
    names cannot be read may be a damaged recording, and so counts as one."""
    # pathlib raises for a name that is longer than any can be
    if os.path.isdir(path):
        return os.path.isfile(path / META)
    return path.suffix == ".zip" and os.path.isfile(path) and is_archived(path)


def recordings_below(path: Path, depth: int = MAX_DEPTH) -> Iterator[Path]:
    """The recording that ``path`` is, or those below it, up to ``depth`` folders down and by their
    names. Links to folders are not followed. Raises RecordingError for a folder that cannot be
    looked into."""
    if is_recording(path):
        yield path
        return
    if not depth or not os.path.isdir(path):
        return
    for name in _names(path):
        yield from recordings_below(path / name, depth - 1)


def _names(folder: Path) -> list[str]:
    try:
        with os.scandir(folder) as entries:
            return sorted(
                entry.name
                for entry in entries
                if entry.name not in _SKIPPED
                and not entry.name.startswith(".")
                and (entry.is_dir(follow_symlinks=False) or entry.name.endswith(".zip"))
            )
    except OSError as error:
        raise RecordingError(
            f"cannot look into {folder}: {error.strerror or error}",
            hint="name the recordings below it that you want, or let yourself read it",
        ) from error
