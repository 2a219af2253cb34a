"""Durable writing."""

from __future__ import annotations

import os
import secrets
from pathlib import Path


def write_whole(path: Path, data: bytes) -> None:
    """Write a file so that it is there whole or not at all, also after a crash. Raises OSError."""
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    try:
        with temporary.open("xb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except OSError:
        temporary.unlink(missing_ok=True)
        raise
    sync_folder(path.parent)


def append_whole(path: Path, data: bytes) -> None:
    """Append to a file and wait for the disk. A failed append leaves it as it was.

    Raises OSError.
    """
    with path.open("ab", buffering=0) as file:
        size = os.fstat(file.fileno()).st_size
        try:
            written = 0
            while written < len(data):
                written += file.write(data[written:])
            os.fsync(file.fileno())
        except OSError:
            file.truncate(size)
            raise


def sync_folder(folder: Path) -> None:
    """Make the names in a folder durable."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
