"""A bundle as a zip file: read member by member, and never extracted.

Every name, kind, method and size is checked before the first byte is inflated, and what is really
inflated is bounded too: no header is believed.
"""

from __future__ import annotations

import io
import os
import re
import stat
import struct
import threading
import unicodedata
import weakref
import zipfile
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from agentserve.core.config import MIB
from agentserve.core.errors import RecordingError
from agentserve.replay.bundle.entries import (
    MAX_ENTRIES,
    damaged,
    label,
    missing,
    shown,
    too_large,
    too_many,
)
from agentserve.replay.bundle.format import META

MAX_ARCHIVE_BYTES = 4096 * MIB - 1
MAX_INFLATED_BYTES = 4096 * MIB
MAX_RATIO = 250
"""Of a member of more than 1 MiB; the most that deflate reaches is about 1030."""
_MAX_DIRECTORY_BYTES = 8 * MIB
_MAX_NAME = 255
_CHUNK = 65_536
_HEADER_BYTES = 30
_METHODS = {zipfile.ZIP_STORED: "stored", zipfile.ZIP_DEFLATED: "deflated"}
_ENCRYPTED = 0x1 | 0x40 | 0x2000
_DRIVE = re.compile(r"[A-Za-z]:")
_WHAT = "a recording is a folder with meta.json in it, or a zip file of one"
_OF_MACOS = "__MACOSX"
"""What its own archiver puts beside the folder."""
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


class ZipEntries:
    """Implements entries.Entries; holds the file open as long as it lives."""

    def __init__(self, path: Path) -> None:
        """Raises RecordingError when it is no zip file, or holds what a bundle may not."""
        self.path = path
        self.name = label(path)
        self._lock = threading.Lock()
        file = _open(path, self.name)
        weakref.finalize(self, file.close)
        size = os.fstat(file.fileno()).st_size
        if size > MAX_ARCHIVE_BYTES:
            raise RecordingError(
                f"{self.name} is larger than {MAX_ARCHIVE_BYTES} bytes",
                hint="no recording is so large",
            )
        try:
            self._archive = zipfile.ZipFile(file)
        except _HOSTILE as error:
            raise RecordingError(
                f"{self.name} is no zip file, or a damaged one: {_words(error)}",
                hint=_WHAT,
            ) from error
        members = self._archive.infolist()
        _check_members(self.name, members)
        top = _top(self.name, [member.filename for member in members])
        self._members = {
            member.filename.removeprefix(top): member
            for member in members
            if not member.is_dir() and member.filename.startswith(top)
        }

    def has(self, entry: str) -> bool:
        return entry in self._members

    def check(self, entry: str, limit: int) -> None:
        self._find(entry, limit)

    def read(self, entry: str, limit: int) -> bytes:
        member = self._find(entry, limit)
        data = bytearray()
        with self._lock, self._translated(entry), self._archive.open(member) as file:
            while chunk := file.read(min(_CHUNK, limit + 1 - len(data))):
                data += chunk
        if len(data) > limit:
            raise too_large(self.name, entry, limit)
        if len(data) != member.file_size:
            raise damaged(self.name, entry, "it has another size than the zip file says")
        return bytes(data)

    def names(self) -> list[str]:
        return sorted(self._members)

    def _find(self, entry: str, limit: int) -> zipfile.ZipInfo:
        member = self._members.get(entry)
        if member is None:
            raise missing(self.name, shown(entry))
        if member.file_size > limit:
            raise too_large(self.name, entry, limit)
        return member

    @contextmanager
    def _translated(self, entry: str) -> Iterator[None]:
        try:
            yield
        except _HOSTILE as error:
            raise damaged(
                self.name, entry, f"cannot be unpacked: {_words(error)}", "copy the zip file again"
            ) from error


def is_archived(path: Path) -> bool:
    """Whether a zip file seems to hold a recording, good or bad. One whose names cannot be read may
    be a damaged recording, and seems to."""
    try:
        with _open(path, label(path)) as file, zipfile.ZipFile(file) as archive:
            names = archive.namelist()
    except (RecordingError, *_HOSTILE):
        return True
    return any(name == META or name.partition("/")[2] == META for name in names)


class _Bounded(io.FileIO):
    """A file of which no more than a directory's size is read at once: the directory is the only
    thing that zipfile reads whole, with a size that the file claims."""

    def read(self, size: int | None = -1) -> bytes:
        wanted = _MAX_DIRECTORY_BYTES if size is None or size < 0 else size
        if wanted > _MAX_DIRECTORY_BYTES:
            raise zipfile.BadZipFile(f"its directory is larger than {_MAX_DIRECTORY_BYTES} bytes")
        return super().read(wanted)


def _open(path: Path, name: str) -> _Bounded:
    def opened(path: str, flags: int) -> int:
        # without O_NONBLOCK, opening a pipe would wait for its other end
        return os.open(path, flags | os.O_NONBLOCK)

    try:
        file = _Bounded(path, opener=opened)
    except OSError as error:
        raise RecordingError(f"{name} cannot be opened: {error.strerror}") from error
    if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        file.close()
        raise RecordingError(f"{name} is neither a folder nor a regular file", hint=_WHAT)
    return file


def _check_members(name: str, members: list[zipfile.ZipInfo]) -> None:
    """Raises RecordingError naming the first member that a bundle may not have."""
    if len(members) > MAX_ENTRIES:
        raise too_many(name)
    seen: set[str] = set()
    for member in members:
        reason = _name_reason(member) or _content_reason(member)
        same = unicodedata.normalize("NFC", member.filename).casefold()
        if reason is None and same in seen:
            reason = "it is there twice, or once more in other letters"
        seen.add(same)
        if reason is not None:
            raise damaged(name, member.orig_filename, reason, "pack the recording's folder anew")
    if sum(member.file_size for member in members) > MAX_INFLATED_BYTES:
        raise RecordingError(
            f"{name}: more than {MAX_INFLATED_BYTES} bytes when unpacked",
            hint="no recording is so large",
        )
    # members that share bytes are how a small file becomes many large ones
    in_order = sorted(members, key=lambda member: member.header_offset)
    for member, after in zip(in_order, in_order[1:], strict=False):
        end = member.header_offset + _HEADER_BYTES + member.compress_size
        if end > after.header_offset:
            raise damaged(name, after.filename, "it overlaps another entry of the zip file")


def _name_reason(member: zipfile.ZipInfo) -> str | None:
    name = member.orig_filename
    if name.startswith("/") or _DRIVE.match(name):
        return "its name is an absolute path"
    if "\\" in name:
        return "its name has a backslash"
    if not name.isprintable() or len(name) > _MAX_NAME:
        return "its name is too long or has characters that no name has"
    if any(part in {"", ".", ".."} for part in name.removesuffix("/").split("/")):
        return "its name leads out of the recording, or nowhere"
    return None


def _content_reason(member: zipfile.ZipInfo) -> str | None:
    kind = stat.S_IFMT(member.external_attr >> 16)
    if kind not in (0, stat.S_IFDIR if member.is_dir() else stat.S_IFREG):
        return "it is not a regular file: links and devices are refused"
    if member.flag_bits & _ENCRYPTED:
        return "it is encrypted"
    if member.compress_type not in _METHODS:
        return f"it is compressed by a method other than {' and '.join(_METHODS.values())}"
    if member.is_dir() and member.file_size:
        return "it is a folder with content"
    if inflates_too_much(member.file_size, member.compress_size):
        return f"it would be more than {MAX_RATIO} times as large when unpacked"
    return None


def inflates_too_much(size: int, packed: int) -> bool:
    """Whether a member of ``size`` bytes is refused that is ``packed`` bytes in the zip file."""
    return size > max(MIB, MAX_RATIO * packed)


def _top(name: str, members: Iterable[str]) -> str:
    """What the entries' names begin with: nothing, or the one folder that all is in."""
    members = list(members)
    if META in members:
        return ""
    tops = {member.split("/")[0] for member in members} - {_OF_MACOS}
    if len(tops) == 1 and (top := f"{tops.pop()}/{META}") in members:
        return top.removesuffix(META)
    raise RecordingError(
        f"{name}: {META} is missing",
        hint="a zip file holds one recording: its entries, or one folder with them",
        details={"entry": META},
    )


def _words(error: BaseException) -> str:
    return shown(str(error).splitlines()[0]) if str(error) else type(error).__name__
