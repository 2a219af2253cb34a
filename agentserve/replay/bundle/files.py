"""Durable writing."""

from __future__ import annotations

import os
import secrets
from pathlib import Path


def write_whole(path: Path, data: bytes, synced: bool = True) -> None:
    """Write a file so that it is there whole or not at all, also after a crash where it is
    ``synced``. Raises OSError."""
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    try:
        with temporary.open("xb") as file:
            file.write(data)
            file.flush()
            if synced:
                os.fsync(file.fileno())
        temporary.replace(path)
    except BaseException:  # an interrupt leaves nothing behind either
        temporary.unlink(missing_ok=True)
        raise
    if synced:
        sync_folder(path.parent)


def append_whole(path: Path, data: bytes, synced: bool = True) -> None:
    """Append to a file and, where it is ``synced``, wait for the disk. An append that failed or was
    interrupted leaves it as it was.

    Raises OSError.
    """
    with path.open("ab", buffering=0) as file:
        size = os.fstat(file.fileno()).st_size
        try:
            written = 0
            while written < len(data):
                written += file.write(data[written:])
            if synced:
                os.fsync(file.fileno())
        except BaseException:  # an interrupt may come in the middle of a line
            file.truncate(size)
            raise


def sync_tree(folder: Path) -> None:
    """Make all that is in a folder durable. Raises OSError."""
    for place, _, names in os.walk(folder):
        for name in names:
            with (Path(place) / name).open("rb") as file:
                os.fsync(file.fileno())
        sync_folder(Path(place))


def sync_folder(folder: Path) -> None:
    """Make the names in a folder durable."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
