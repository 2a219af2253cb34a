"""A bundle's folder as one zip file, and back."""

from __future__ import annotations

import os
import secrets
import shutil
import stat
import zipfile
import zlib
from contextlib import suppress
from pathlib import Path

from agentserve.core.errors import RecordingError
from agentserve.replay.bundle.archive import MAX_ARCHIVE_BYTES, ZipEntries, inflates_too_much
from agentserve.replay.bundle.entries import Entries
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
    _check_free(archive)
    if os.path.isfile(path):
        raise RecordingError(
            f"{path} is a file: what is packed is the folder of a recording",
            hint="a zip file of one is packed already; agentserve recording unpack makes a folder",
        )
    recording = read_recording(path)
    entries, left_out = _chosen(recording)
    building = _beside(archive)
    try:
        with zipfile.ZipFile(building, "x", allowZip64=False) as packed:
            for entry, limit in entries.items():
                member = zipfile.ZipInfo(f"{recording.meta.id}/{entry}", _TIME)
                member.create_system = 3  # Unix, whatever this is: the bytes are the same
                member.external_attr = (stat.S_IFREG | 0o644) << 16
                data = recording.entries.read(entry, limit)
                # PNGs are deflated already
                stored = entry.endswith(".png") or _is_blown_up(data)
                member.compress_type = zipfile.ZIP_STORED if stored else zipfile.ZIP_DEFLATED
                packed.writestr(member, data, compresslevel=_LEVEL)
        _check_readable(building, archive)
        _sync(building)
        building.rename(archive)
        sync_folder(archive.parent)
    except zipfile.LargeZipFile as error:
        raise RecordingError(
            f"cannot write {archive}: {error}",
            hint=f"a recording's zip file has at most {MAX_ARCHIVE_BYTES} bytes",
        ) from error
    except OSError as error:
        raise _not_written(archive, error) from error
    finally:
        with suppress(OSError):  # it may be the folder that is not there
            building.unlink(missing_ok=True)
    return left_out


def unpack(archive: Path, folder: Path) -> list[str]:
    """Write the recording in a zip file as the new ``folder``, which appears whole. Returns the
    names that were left out. Nothing but entries of a recording is written.

    Raises RecordingError, with nothing written.
    """
    _check_free(folder)
    if os.path.isdir(archive):
        raise RecordingError(
            f"{archive} is a folder: what is unpacked is the zip file of a recording",
            hint="a folder of one is ready as it is; agentserve recording show tells what is in it",
        )
    recording = read_recording(archive)
    entries, left_out = _chosen(recording)
    building = _beside(folder)
    try:
        (building / SCREENSHOTS).mkdir(parents=True)
        for entry, limit in entries.items():
            to = building / entry
            to.parent.mkdir(exist_ok=True)
            write_whole(to, recording.entries.read(entry, limit))
        building.rename(folder)
        sync_folder(folder.parent)
    except OSError as error:
        raise _not_written(folder, error) from error
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


def _check_free(path: Path) -> None:
    # pathlib raises for a name that is too long, which is told when it is written
    if os.path.lexists(path):
        raise RecordingError(
            f"{path} is there already",
            hint="nothing is written over: name another one as the second argument, or remove it",
        )


def _beside(path: Path) -> Path:
    """A new hidden name, which is no longer than any other."""
    return path.with_name(f".agentserve-{secrets.token_hex(8)}")


def _is_blown_up(data: bytes) -> bool:
    """Whether it would be deflated so well that a reader takes it for an attack."""
    if not inflates_too_much(len(data), 0):  # small ones are read, however well deflated
        return False
    packer = zlib.compressobj(_LEVEL, zlib.DEFLATED, -zlib.MAX_WBITS)
    return inflates_too_much(len(data), len(packer.compress(data)) + len(packer.flush()))


def _check_readable(building: Path, archive: Path) -> None:
    """Raises RecordingError when a reader would refuse it."""
    try:
        ZipEntries(building)
    except RecordingError as error:
        raise RecordingError(
            f"cannot write {archive}: {error.message.removeprefix(building.name).lstrip(': ')}",
            hint="a recording that large stays a folder",
        ) from error


def _not_written(path: Path, error: OSError) -> RecordingError:
    match error:
        case FileNotFoundError():
            hint = f"make the folder {path.parent} first"
        case PermissionError():
            hint = f"name a place that you may write to: {path.parent} is none"
        case _:
            hint = "name another place as the second argument"
    return RecordingError(f"cannot write {path}: {error.strerror or error}", hint=hint)
