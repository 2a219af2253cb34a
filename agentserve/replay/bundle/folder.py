"""A bundle as a folder: names are opened one by one, so that no link leads out of it."""

from __future__ import annotations

import os
import stat
from contextlib import ExitStack
from pathlib import Path

from agentserve.core.config import MIB
from agentserve.core.errors import RecordingError
from agentserve.replay.bundle.entries import (
    MAX_ENTRIES,
    label,
    missing,
    shown,
    too_large,
    too_many,
)
from agentserve.replay.bundle.format import FOLDERS


class FolderEntries:
    """Implements entries.Entries."""

    def __init__(self, folder: Path) -> None:
        self.path = folder
        self.name = label(folder)

    def has(self, entry: str) -> bool:
        return os.path.lexists(self.path / entry)

    def check(self, entry: str, limit: int) -> None:
        with ExitStack() as stack:
            self._open(entry, limit, stack)

    def read(self, entry: str, limit: int) -> bytes:
        with ExitStack() as stack:
            descriptor = self._open(entry, limit, stack)
            data = bytearray()
            while chunk := os.read(descriptor, min(limit + 1 - len(data), MIB)):
                data += chunk
        if len(data) > limit:  # it grew since it was opened
            raise too_large(self.name, entry, limit)
        return bytes(data)

    def names(self) -> list[str]:
        names: list[str] = []
        with ExitStack() as stack:
            try:
                top = _opened(stack, self.path, os.O_DIRECTORY)
                for name, is_folder in _listed(top):
                    names.append(f"{name}/" if is_folder else name)
                    if is_folder and name in FOLDERS:
                        names.pop()
                        inside = _opened(stack, name, os.O_DIRECTORY | os.O_NOFOLLOW, top)
                        names += [f"{name}/{n}{'/' * deep}" for n, deep in _listed(inside)]
                    if len(names) > MAX_ENTRIES:
                        raise too_many(self.name)
            except OSError as error:
                raise RecordingError(f"{self.name} cannot be listed: {error.strerror}") from error
        return sorted(names)

    def _open(self, entry: str, limit: int, stack: ExitStack) -> int:
        """Descriptor of an entry. Every name on the way to it must be what it seems to be."""
        *folders, name = entry.split("/")
        try:
            at = _opened(stack, self.path, os.O_DIRECTORY)
            for part in folders:
                at = _opened(stack, part, os.O_DIRECTORY | os.O_NOFOLLOW, at)
            # without O_NONBLOCK, opening a pipe would wait for its other end
            descriptor = _opened(stack, name, os.O_NOFOLLOW | os.O_NONBLOCK, at)
        except FileNotFoundError as error:
            raise missing(self.name, shown(entry)) from error
        except OSError as error:
            raise RecordingError(
                f"{self.name}: {shown(entry)} cannot be opened: {error.strerror}",
                hint="entries of a recording are plain files; symbolic links are refused",
                details={"entry": shown(entry)},
            ) from error
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise RecordingError(
                f"{self.name}: {shown(entry)} is not a regular file",
                hint="remove it: entries of a recording are plain files",
                details={"entry": shown(entry)},
            )
        if status.st_size > limit:
            raise too_large(self.name, entry, limit)
        return descriptor


def _listed(descriptor: int) -> list[tuple[str, bool]]:
    """Names in a folder, and whether each is a folder itself; of no more than one too many."""
    found = []
    with os.scandir(descriptor) as entries:
        for entry in entries:
            found.append((entry.name, entry.is_dir(follow_symlinks=False)))
            if len(found) > MAX_ENTRIES:
                break
    return found


def _opened(stack: ExitStack, path: Path | str, flags: int, at: int | None = None) -> int:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | flags, dir_fd=at)
    stack.callback(os.close, descriptor)
    return descriptor
