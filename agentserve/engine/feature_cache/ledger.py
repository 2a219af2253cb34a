"""The folder's size in bytes: one number in a file, shared by all workers, and its lock.

Without it each worker would have to look at every file to know whether another one had filled the
folder. Who changes what the folder holds does so under the lock, which the kernel takes back from
a process that dies.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_DIGITS = 20


class Ledger:
    """The number, for as long as the lock is held."""

    def __init__(self, fd: int) -> None:
        self._fd = fd

    def read(self) -> int | None:
        """The folder's bytes; None when nobody has counted them yet or the file is damaged."""
        text = os.pread(self._fd, _DIGITS + 1, 0)
        return int(text) if len(text) == _DIGITS and text.isdigit() else None

    def write(self, num_bytes: int) -> None:
        os.ftruncate(self._fd, _DIGITS)
        os.pwrite(self._fd, b"%0*d" % (_DIGITS, num_bytes), 0)


@contextmanager
def locked(path: Path) -> Iterator[Ledger]:
    """Wait for the lock and hold it, against other processes and against threads of this one.

    Raises OSError when the file can be neither opened nor made.
    """
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
        yield Ledger(fd)
    finally:
        os.close(fd)
