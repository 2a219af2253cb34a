"""Finds the recordings below folders, and names them as tests are named."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from agentserve.core.errors import RecordingError
from agentserve.replay import Recording, read_recording
from agentserve.replay.bundle.below import recordings_below
from agentserve.replay.bundle.entries import label
from agentserve.replay.bundle.format import META


@dataclass(frozen=True, order=True)
class Found:
    """A recording, by the name that tells it from others: its path below what was named."""

    name: str
    path: Path


@dataclass(frozen=True)
class ReadRecording:
    """One that was read."""

    name: str
    recording: Recording


@dataclass(frozen=True)
class ReadRecordings:
    """Of those that were found."""

    read: list[ReadRecording] = field(default_factory=list)
    unread: dict[str, RecordingError] = field(default_factory=dict)
    """What is wrong with the others, by their names."""


def read_found(found: Sequence[Found]) -> ReadRecordings:
    """Read them all; a damaged one does not keep the others from it."""
    result = ReadRecordings()
    for one in found:
        try:
            result.read.append(ReadRecording(one.name, read_recording(one.path)))
        except RecordingError as error:
            result.unread[one.name] = error
    return result


def find_recordings(paths: Sequence[Path]) -> list[Found]:
    """The recordings that ``paths`` are, or hold, each once. No two have one name: where their
    paths below what was named are the same, as many of their folders' names are before them as
    tell them apart.

    Raises RecordingError when one of the paths is none and holds none.
    """
    found: dict[Path, Found] = {}
    for path in paths:
        here = sorted(_named(one, path) for one in recordings_below(path))
        if not here:
            raise RecordingError(
                f"{path} is no recording and holds none"
                if os.path.exists(path)
                else f"{path} does not exist",
                hint=f"a recording is a folder with a {META}, or a zip of one",
            )
        for one in here:
            found.setdefault(one.path.resolve(), one)
    return _told_apart(found)


def _told_apart(found: Mapping[Path, Found]) -> list[Found]:
    names = Counter(one.name for one in found.values())
    taken = {name for name, count in names.items() if count == 1}
    alike = {whole: one for whole, one in found.items() if names[one.name] > 1}
    told = dict(found)
    length = 1
    while alike:  # whole paths are not the same
        length += 1
        longer = {whole: "/".join(whole.parts[-length:]) for whole in alike}
        counts = Counter(longer.values())
        for whole, name in longer.items():
            if counts[name] == 1 and name not in taken:
                told[whole] = replace(alike.pop(whole), name=name)
        taken.update(one.name for one in told.values())
    return list(told.values())


def _named(path: Path, root: Path) -> Found:
    inside = path.relative_to(root).as_posix() if path != root else label(path)
    return Found(inside.removesuffix(".zip"), path)
