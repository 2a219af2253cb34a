"""``--update``: what replays found is written beside their recordings."""

from __future__ import annotations

from collections.abc import Collection

from agentserve.core.errors import RecordingError
from agentserve.replay import Replayed
from agentserve.replay.bundle.files import write_whole
from agentserve.replay.bundle.format import aria_entry, screenshot_entry
from agentserve.replay.compare.accepting import accept, accepted_files
from agentserve.replay.compare.expectations import expectations_of, save_expectations


def accept_replayed(replayed: Replayed, steps: Collection[int] | None = None) -> None:
    """Write what a replay found into the recording's folder, as what the next one may find; of
    ``steps`` only, by their indices, or of all. Blocking.

    Raises RecordingError for a recording in a zip file, and when the disk refuses; InvalidRequest
    for a step that the replay has not.
    """
    folder = replayed.recording.path
    if not folder.is_dir():
        raise RecordingError(
            f"{folder} is a zip file: nothing can be accepted in it",
            hint="agentserve recording unpack makes a folder of it",
        )
    expectations = accept(expectations_of(replayed.recording), replayed.report, steps)
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
