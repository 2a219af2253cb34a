"""``--update``: what replays found is written beside their recordings."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from agentserve.core.errors import RecordingError
from agentserve.replay import Replayed
from agentserve.replay.bundle.files import write_whole
from agentserve.replay.bundle.format import aria_entry, screenshot_entry
from agentserve.replay.compare.accepting import accept, accepted_files, left_of
from agentserve.replay.compare.expectations import (
    Expectations,
    expectations_json,
    expectations_of,
    save_expectations,
)


def accept_replayed(replayed: Replayed, steps: Collection[int] | None = None) -> Replayed:
    """Write what a replay found into the recording's folder, as what the next one may find; of
    ``steps`` only, by their indices, or of all. Gives the replay with what still differs. Blocking;
    several processes may accept of one recording.

    Raises RecordingError for a recording in a zip file, and when the disk refuses; InvalidRequest
    for a step that the replay has not, and one with too many alternatives.
    """
    recording = replayed.recording
    if recording is None or replayed.report.error is not None:
        return replayed
    folder = recording.path
    if not folder.is_dir():
        raise RecordingError(
            f"{folder} is a zip file: nothing can be accepted in it",
            hint="agentserve recording unpack makes a folder of it",
        )
    with _alone(folder):
        before = expectations_of(recording)
        after = accept(before, replayed.report, steps)
        if expectations_json(after) != expectations_json(before):
            _save(folder, after, replayed)
    report = left_of(replayed.report, replayed.expectations or before, after)
    return replace(replayed, report=report)


def _save(folder: Path, expectations: Expectations, replayed: Replayed) -> None:
    screens, arias = accepted_files(expectations, replayed)
    named = [(screenshot_entry, screens), (aria_entry, arias)]
    try:
        for entry, files in named:
            for sha256, data in files.items():
                path = folder / entry(sha256)
                path.parent.mkdir(exist_ok=True)
                write_whole(path, data)
    except OSError as error:
        raise RecordingError(f"cannot write into {folder}: {error.strerror or error}") from error
    save_expectations(folder, expectations)


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Whoever else accepts here waits: both would write what they have read and added to. The
    folder itself is locked, so that no file is left in it. Raises RecordingError."""
    try:
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError as error:
        raise RecordingError(f"cannot open {folder}: {error.strerror or error}") from error
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        except OSError as error:
            raise RecordingError(f"cannot lock {folder}: {error.strerror or error}") from error
        yield
    finally:
        os.close(descriptor)
