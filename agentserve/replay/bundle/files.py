"""Files, at both edges: durable writing, and reading that follows nothing out of the folder."""

from __future__ import annotations

import os
import secrets
import stat
from contextlib import ExitStack
from pathlib import Path

from agentserve.core.errors import RecordingError


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


def read_entry(folder: Path, entry: str, limit: int) -> bytes:
    """The bytes of ``folder/entry``. Every name below ``folder`` must be what it seems to be.

    Raises RecordingError, naming the entry, when one is missing, a symbolic link, no regular file,
    or larger than ``limit`` bytes.
    """
    with ExitStack() as stack:
        descriptor = _open(folder, entry, limit, stack)
        data = bytearray()
        while chunk := os.read(descriptor, limit + 1 - len(data)):
            data += chunk
    if len(data) > limit:  # it grew since it was opened
        raise RecordingError(_too_large(folder, entry, limit))
    return bytes(data)


def check_entry(folder: Path, entry: str, limit: int) -> None:
    """Raises what ``read_entry`` would raise before it reads."""
    with ExitStack() as stack:
        _open(folder, entry, limit, stack)


def _open(folder: Path, entry: str, limit: int, stack: ExitStack) -> int:
    """Descriptor of an entry, opened name by name so that no link can be slipped in between."""
    *folders, name = entry.split("/")
    try:
        at = _opened(stack, folder, os.O_DIRECTORY)
        for part in folders:
            at = _opened(stack, part, os.O_DIRECTORY | os.O_NOFOLLOW, at)
        # without O_NONBLOCK, opening a pipe would wait for its other end
        descriptor = _opened(stack, name, os.O_NOFOLLOW | os.O_NONBLOCK, at)
    except FileNotFoundError as error:
        raise RecordingError(f"{folder.name}: {entry} is missing") from error
    except OSError as error:
        raise RecordingError(
            f"{folder.name}: {entry} cannot be opened: {error.strerror}",
            hint="entries of a recording are plain files; symbolic links are refused",
        ) from error
    status = os.fstat(descriptor)
    if not stat.S_ISREG(status.st_mode):
        raise RecordingError(f"{folder.name}: {entry} is not a regular file")
    if status.st_size > limit:
        raise RecordingError(_too_large(folder, entry, limit))
    return descriptor


def _opened(stack: ExitStack, path: Path | str, flags: int, at: int | None = None) -> int:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | flags, dir_fd=at)
    stack.callback(os.close, descriptor)
    return descriptor


def _too_large(folder: Path, entry: str, limit: int) -> str:
    return f"{folder.name}: {entry} is larger than {limit} bytes"
