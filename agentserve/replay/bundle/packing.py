"""A bundle's folder as one zip file, and back."""

from __future__ import annotations

import os
import secrets
import shutil
import stat
import zipfile
from pathlib import Path

from agentserve.core.errors import RecordingError
from agentserve.replay.bundle.archive import MAX_ARCHIVE_BYTES
from agentserve.replay.bundle.entries import Entries, label
from agentserve.replay.bundle.files import sync_folder, write_whole
from agentserve.replay.bundle.format import SCREENSHOTS, entry_limit
from agentserve.replay.bundle.reader import Recording, read_recording

_TIME = (1980, 1, 1, 0, 0, 0)
"""The earliest that a zip file can tell."""
_LEVEL = 6


def pack(path: Path, archive: Path) -> list[str]:
    """Write the recording in a folder as the new zip file ``archive``, in which it is the folder
    named by its id. Returns the names that were left out: files that belong to no recording.

    The same entries give the same bytes, whenever and in whatever order they were written (with the
    same zlib). Raises RecordingError, with nothing written.
    """
    if archive.exists():
        raise RecordingError(f"{label(archive)} is there already", hint="choose another name")
    recording = read_recording(path)
    entries, left_out = _chosen(recording)
    building = archive.with_name(f".{archive.name}.{secrets.token_hex(4)}")
    try:
        with zipfile.ZipFile(building, "x", allowZip64=False) as packed:
            for entry, limit in entries.items():
                member = zipfile.ZipInfo(f"{recording.meta.id}/{entry}", _TIME)
                member.create_system = 3  # Unix, whatever this is: the bytes are the same
                member.external_attr = (stat.S_IFREG | 0o644) << 16
                # PNGs are deflated already
                stored = entry.endswith(".png")
                member.compress_type = zipfile.ZIP_STORED if stored else zipfile.ZIP_DEFLATED
                packed.writestr(member, recording.entries.read(entry, limit), compresslevel=_LEVEL)
        _sync(building)
        building.rename(archive)
        sync_folder(archive.parent)
    except (OSError, zipfile.LargeZipFile) as error:
        raise RecordingError(
            f"cannot write {archive}: {_words(error)}",
            hint=f"a recording's zip file has at most {MAX_ARCHIVE_BYTES} bytes",
        ) from error
    finally:
        building.unlink(missing_ok=True)
    return left_out


def unpack(archive: Path, folder: Path) -> list[str]:
    """Write the recording in a zip file as the new ``folder``, which appears whole. Returns the
    names that were left out. Nothing but entries of a recording is written.

    Raises RecordingError, with nothing written.
    """
    if folder.exists():
        raise RecordingError(f"{label(folder)} is there already", hint="choose another name")
    recording = read_recording(archive)
    entries, left_out = _chosen(recording)
    building = folder.with_name(f".{folder.name}.{secrets.token_hex(4)}")
    try:
        (building / SCREENSHOTS).mkdir(parents=True)
        for entry, limit in entries.items():
            to = building / entry
            to.parent.mkdir(exist_ok=True)
            write_whole(to, recording.entries.read(entry, limit))
        building.rename(folder)
        sync_folder(folder.parent)
    except OSError as error:
        raise RecordingError(f"cannot write {folder}: {_words(error)}") from error
    finally:
        shutil.rmtree(building, ignore_errors=True)
    return left_out


def _chosen(recording: Recording) -> tuple[dict[str, int], list[str]]:
    """The entries that belong to a recording, each with its limit, and the names of the others."""
    entries: Entries = recording.entries
    limits = {name: entry_limit(name) for name in entries.names()}
    chosen = {name: limit for name, limit in limits.items() if limit is not None}
    return chosen, [name for name, limit in limits.items() if limit is None]


def _sync(path: Path) -> None:
    with path.open("rb+") as file:
        os.fsync(file.fileno())


def _words(error: Exception) -> str:
    return getattr(error, "strerror", None) or str(error)
