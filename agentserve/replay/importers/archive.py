"""A zip that anyone may have written, read in memory: no name in it becomes a path.

Its directory is measured before it is read, and every member as it inflates, whatever sizes it
claims. Raises RecordingError, which names the file and the member.
"""

from __future__ import annotations

import os
import stat
import struct
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO, BinaryIO

from agentserve.core.config import MIB
from agentserve.core.errors import RecordingError

MAX_ARCHIVE_BYTES = 1024 * MIB
MAX_DIRECTORY_BYTES = 8 * MIB
MAX_MEMBERS = 50_000
MAX_INFLATED_BYTES = 2048 * MIB
"""Of all members that are read, together."""

# signature, disks, members, size and place of the directory, comment
_END = struct.Struct("<4s4H2IH")
_ZIP64_LOCATOR = 20
# zipfile promises nothing about what it raises on hostile input. MemoryError is this machine's.
_HOSTILE = (
    ArithmeticError,
    AttributeError,
    EOFError,
    LookupError,
    OSError,
    RuntimeError,
    TypeError,
    ValueError,
    struct.error,
    zipfile.BadZipFile,
    zipfile.LargeZipFile,
    zlib.error,
)
_METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
_ENCRYPTED = 1


class Archive:
    """An open zip."""

    def __init__(self, zipped: zipfile.ZipFile, name: str) -> None:
        self._zip = zipped
        self._name = name
        self._members: dict[str, zipfile.ZipInfo] = {}
        self._left = MAX_INFLATED_BYTES
        for member in zipped.infolist():
            if member.filename in self._members:
                raise self._damaged(member.filename, "is there twice")
            self._members[member.filename] = member

    def names(self) -> Iterator[str]:
        yield from self._members

    def __contains__(self, member: str) -> bool:
        return member in self._members

    def read(self, member: str, limit: int) -> bytes:
        """The bytes of a member of at most ``limit`` bytes."""
        with self._open(member) as file:
            data = file.read(limit + 1)
            if len(data) > limit:
                raise self._damaged(member, f"is larger than {limit} bytes when it is unpacked")
            self._count(member, len(data))
        return data

    def lines(self, member: str, longest: int) -> Iterator[bytes]:
        """The lines of a member, without their ends. Of one with more than ``longest`` bytes the
        first ``longest + 1``: the caller says what is to be done with it."""
        with self._open(member) as file:
            while line := file.readline(longest + 1):
                self._count(member, len(line))
                yield line.removesuffix(b"\n")
                while len(line) > longest and not line.endswith(b"\n"):
                    line = file.readline(longest + 1)
                    self._count(member, len(line))

    def _count(self, member: str, size: int) -> None:
        self._left -= size
        if self._left < 0:
            raise self._damaged(
                member, f"and those before it have over {MAX_INFLATED_BYTES} bytes when unpacked"
            )

    @contextmanager
    def _open(self, member: str) -> Iterator[IO[bytes]]:
        info = self._members.get(member)
        if info is None:
            raise self._damaged(member, "is missing")
        if info.compress_type not in _METHODS or info.flag_bits & _ENCRYPTED:
            raise self._damaged(member, "is encrypted, or compressed in a way that is not read")
        try:
            with self._zip.open(info) as file:
                yield file
        except _HOSTILE as error:
            raise self._damaged(member, f"is damaged: {str(error)[:200]}") from error

    def _damaged(self, member: str, reason: str) -> RecordingError:
        return RecordingError(f"{self._name}: {member[:120]!r} {reason}")


@contextmanager
def open_archive(path: Path) -> Iterator[Archive]:
    """The zip of that path. Raises RecordingError when it is none, or a huge one."""
    with ExitStack() as stack:
        try:
            file = stack.enter_context(open(path, "rb", opener=_opened))
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise RecordingError(f"{path.name} is not a regular file")
            _check_directory(file, path.name)
            archive = Archive(stack.enter_context(zipfile.ZipFile(file)), path.name)
        except _HOSTILE as error:
            raise RecordingError(f"{path.name}: no zip to be read: {str(error)[:200]}") from error
        yield archive


def _opened(path: str, flags: int) -> int:
    # without O_NONBLOCK, opening a pipe would wait for its other end
    return os.open(path, flags | os.O_NONBLOCK)


def _check_directory(file: BinaryIO, name: str) -> None:
    size = file.seek(0, 2)
    if size > MAX_ARCHIVE_BYTES:
        raise RecordingError(f"{name} has {size} bytes; {MAX_ARCHIVE_BYTES} is most")
    if size < _END.size:
        raise RecordingError(f"{name}: not a zip: too short")
    # what is refused here would be read by zipfile: comments, behind which another end could hide,
    # and the 64-bit end, which overrides this one
    file.seek(max(0, size - _END.size - _ZIP64_LOCATOR))
    tail = file.read()
    signature, *_, members, length, _place, comment = _END.unpack(tail[-_END.size :])
    if signature != b"PK\x05\x06" or comment:
        raise RecordingError(
            f"{name}: not a whole zip, or one with a comment", hint="copy or make it again"
        )
    if tail[: -_END.size].startswith(b"PK\x06\x07"):
        raise RecordingError(f"{name}: a zip in the 64-bit form, which is not read")
    if members > MAX_MEMBERS or length > MAX_DIRECTORY_BYTES:
        raise RecordingError(f"{name}: a zip of more than {MAX_MEMBERS} files")
