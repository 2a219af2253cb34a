"""Results of replays in a folder, so that several processes make one page of them."""

from __future__ import annotations

import hashlib
from pathlib import Path

from agentserve.core.errors import RecordingError
from agentserve.replay import Replayed, ReplayReport, read_recording
from agentserve.replay.bundle.files import write_whole

_REPORT = "report.json"
_RECORDING = "recording"
_PICTURES = "pictures"
_ARIAS = "arias"


def keep(replayed: Replayed, root: Path) -> None:
    """Write a result below ``root``; one of the same recording and mode is replaced. Raises
    RecordingError."""
    report = replayed.report
    told = f"{report.mode} {replayed.recording.path.resolve()}"
    folder = root / hashlib.sha256(told.encode()).hexdigest()[:24]
    try:
        for kind, files in ((_PICTURES, replayed.pictures), (_ARIAS, replayed.arias)):
            (folder / kind).mkdir(parents=True, exist_ok=True)
            for name, data in files.items():
                write_whole(folder / kind / name, data)
        write_whole(folder / _RECORDING, str(replayed.recording.path.resolve()).encode())
        write_whole(folder / _REPORT, report.model_dump_json().encode())
    except OSError as error:
        raise RecordingError(
            f"cannot write results to {root}: {error.strerror or error}"
        ) from error


def read_kept(root: Path) -> list[Replayed]:
    """All results below ``root``, by the names of their recordings. Raises RecordingError for a
    recording that is not there any more."""
    kept = []
    for path in root.glob(f"*/{_REPORT}"):
        folder = path.parent
        recording = read_recording(Path((folder / _RECORDING).read_text()))
        pictures, arias = (
            {file.name: file.read_bytes() for file in (folder / kind).iterdir()}
            for kind in (_PICTURES, _ARIAS)
        )
        report = ReplayReport.model_validate_json(path.read_bytes())
        kept.append(Replayed(report, recording, pictures, arias))
    return sorted(kept, key=lambda one: (one.report.name, one.report.mode))
