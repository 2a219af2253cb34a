"""``--update``: what replays found is written beside their recordings."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from agentserve.core.errors import RecordingError
from agentserve.replay import Recording, Replayed
from agentserve.replay.bundle.files import write_whole
from agentserve.replay.bundle.format import aria_entry, screenshot_entry
from agentserve.replay.compare.accepting import (
    accept,
    accepted_files,
    accepted_names,
    left_of,
)
from agentserve.replay.compare.expectations import (
    Expectations,
    expectations_json,
    expectations_of,
    save_expectations,
)


def accept_replayed(
    replayed: Replayed, steps: Collection[int] | None = None, *, also: bool = False
) -> Replayed:
    """Write what a replay found into the recording's folder, as what the next one must find; of
    ``steps`` only, by their indices, or of all. With ``also`` it may as well find what passed until
    now; without, files that only served that are removed. Gives the replay with what still differs.
    Blocking; several processes may accept of one recording.

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
        after = accept(before, replayed.report, steps, also=also)
        if expectations_json(after) != expectations_json(before):
            gone = _gone(recording, before, after)
            # a page of this replay still shows them
            shown = {sha: recording.screenshot(sha) for sha in gone.screens}
            _save(folder, after, replayed)
            _remove(folder, gone)
            replayed = replace(replayed, pictures={**shown, **replayed.pictures})
    report = left_of(replayed.report, replayed.expectations or before, after)
    return replace(replayed, report=report)


@dataclass(frozen=True)
class _Gone:
    """Files that only what was accepted before has named, by their SHA-256."""

    screens: frozenset[str]
    arias: frozenset[str]


def _gone(recording: Recording, before: Expectations, after: Expectations) -> _Gone:
    (old_screens, old_arias), (screens, arias) = accepted_names(before), accepted_names(after)
    screens |= {step.screenshot for step in recording.steps if step.screenshot is not None}
    arias |= {step.aria for step in recording.steps if step.aria is not None}
    return _Gone(frozenset(old_screens - screens), frozenset(old_arias - arias))


def _remove(folder: Path, gone: _Gone) -> None:
    entries = [*map(screenshot_entry, gone.screens), *map(aria_entry, gone.arias)]
    try:
        for entry in entries:
            (folder / entry).unlink(missing_ok=True)
    except OSError as error:
        raise RecordingError(f"cannot remove {folder / entry}: {error.strerror}") from error


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
