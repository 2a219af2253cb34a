"""Finds the recordings below folders, and names them as tests are named."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from agentserve.core.errors import RecordingError
from agentserve.replay.bundle.format import META

MAX_DEPTH = 6
"""Folders below the one that was named."""
_SKIPPED = {"node_modules", "__pycache__", "screenshots", "heatmaps", "aria"}


@dataclass(frozen=True, order=True)
class Found:
    """A recording, by the name that tells it from others: its path below what was named."""

    name: str
    path: Path


def find_recordings(paths: Sequence[Path]) -> list[Found]:
    """The recordings that ``paths`` are, or hold, each once, by name.

    Raises RecordingError when one of the paths is none and holds none.
    """
    found: dict[Path, Found] = {}
    for path in paths:
        here = sorted(_below(path, path, MAX_DEPTH))
        if not here:
            raise RecordingError(
                f"{path} is no recording and holds none"
                if path.exists()
                else f"{path} does not exist",
                hint=f"a recording is a folder with a {META}, or a zip of one",
            )
        for one in here:
            found.setdefault(one.path.resolve(), one)
    return list(found.values())


def is_recording(path: Path) -> bool:
    """Whether it looks like one, by its names alone."""
    if path.is_dir():
        return (path / META).is_file()
    return path.suffix == ".zip" and path.is_file()


def _below(path: Path, root: Path, depth: int) -> Iterator[Found]:
    if is_recording(path):
        inside = path.relative_to(root).as_posix() if path != root else path.name
        yield Found(inside.removesuffix(".zip"), path)
        return
    if not depth or not path.is_dir():
        return
    with os.scandir(path) as entries:
        names = [
            entry.name
            for entry in entries
            if entry.name not in _SKIPPED
            and not entry.name.startswith(".")
            and (entry.is_dir(follow_symlinks=False) or entry.name.endswith(".zip"))
        ]
    for name in sorted(names):
        yield from _below(path / name, root, depth - 1)
