"""Names → bytes in a folder that several processes use at once, bounded in bytes.

``<folder>/features-v1/<model>/<first two digits of the name>/<name>.safetensors``, so that 100,000
files lie 400 to a directory. A worker looks at all of them only when it starts and whenever it has
removed the longest unused eighth that it found the last time, so that the cost of a look at n files
is spread over n/8 writes; in between it keeps nothing per file but that eighth. A full folder loses
about one file per write, never many at once: other workers wait for the lock meanwhile.

The time of the last use is the file's modification time, which (unlike the access time) works on
every mount. Only files named like ours are ever counted or removed.
"""

from __future__ import annotations

import os
import re
import stat
import tempfile
import time
from collections import deque
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from agentserve.engine.feature_cache.ledger import locked

LOOK_SHARE = 8
"""One look at n files finds the n / LOOK_SHARE that are removed next."""
STALE_S = 3600.0
"""Age after which an unfinished file belongs to a writer that died."""

_SUFFIX = ".safetensors"
_SHA256 = re.compile(r"[0-9a-f]{64}")
_SHARD = re.compile(r"[0-9a-f]{2}")
_FILE = re.compile(r"[0-9a-f]{64}\.safetensors")


class FileStore:
    """The files of one model, in a folder that it may share with other models.

    ``model`` and every ``name`` are 64 hex digits; the limit holds for all models together.
    """

    def __init__(self, folder: Path, model: str, limit_bytes: int) -> None:
        self.limit_bytes = limit_bytes
        self.num_bytes = 0
        """Bytes of all files when this process last wrote one."""
        self._root = folder / "features-v1"
        self._model = self._root / model
        self._incoming = self._root / "incoming"
        self._ledger = self._root / "ledger"
        self._oldest: deque[tuple[int, int, str]] = deque()
        """What to remove next: (last use in ns, bytes, path)."""

    def open(self) -> None:
        """Make the folder, count what is in it, remove what is over the limit. Raises OSError.

        Reading works before. Counting takes about 10 µs of processor time a file.
        """
        self._root.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._incoming.mkdir(mode=0o700, exist_ok=True)
        for left in self._incoming.iterdir():
            with suppress(FileNotFoundError):
                if left.stat().st_mtime < time.time() - STALE_S:
                    left.unlink()
        with locked(self._ledger) as ledger:
            self.num_bytes = self._make_room(self._count(), 0)
            ledger.write(self.num_bytes)

    def read(self, name: str) -> bytes | None:
        """None when there is no such file; empty when it cannot be read or cannot be ours."""
        try:
            with open(self._path(name), "rb", opener=_open_plain) as file:
                facts = os.fstat(file.fileno())
                if not stat.S_ISREG(facts.st_mode) or facts.st_size > self.limit_bytes:
                    return b""
                return file.read(facts.st_size)
        except FileNotFoundError:
            return None
        except OSError:
            return b""

    def touch(self, name: str) -> bool:
        """Note that a file is in use; False when there is none. Raises OSError."""
        try:
            os.utime(self._path(name), follow_symlinks=False)
        except FileNotFoundError:
            return False
        return True

    def write(self, name: str, data: bytes) -> None:
        """Store a file unless it is there or over the limit by itself. Raises OSError."""
        if len(data) > self.limit_bytes:
            return
        path = self._path(name)
        # Not synced: after a power cut the file may be empty or torn, which its reader notices.
        with tempfile.NamedTemporaryFile(dir=self._incoming, delete=False) as file:
            try:
                file.write(data)
                file.flush()
                self._publish(Path(file.name), path, len(data))
            finally:
                with suppress(FileNotFoundError):  # it was renamed
                    os.unlink(file.name)

    def remove(self, name: str) -> None:
        """Remove a file if that is possible. Its bytes stay in the ledger until the next count."""
        with suppress(OSError):
            self._path(name).unlink()

    def _publish(self, new: Path, path: Path, size: int) -> None:
        with locked(self._ledger) as ledger:
            if os.path.lexists(path):  # another worker was quicker
                return
            total = ledger.read()
            total = self._make_room(self._count() if total is None else total, size)
            # In this order a crash in between leaves the ledger too high, never too low.
            ledger.write(total + size)
            self.num_bytes = total + size
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            os.replace(new, path)

    def _make_room(self, total: int, size: int) -> int:
        """Under the lock: remove files until ``size`` bytes fit; returns the bytes of the rest."""
        while total + size > self.limit_bytes:
            if not self._oldest:
                total = self._count()
                continue
            used, old_size, path = self._oldest.popleft()
            with suppress(FileNotFoundError):  # another worker has removed it, and its bytes
                if os.lstat(path).st_mtime_ns == used:  # else it was used in the meantime
                    os.unlink(path)
                    total -= old_size
        return total

    def _count(self) -> int:
        """Under the lock: the bytes of all files. Notes which ones were not used for longest."""
        files = sorted(self._files())
        self._oldest = deque(files[: len(files) // LOOK_SHARE + 1])
        return sum(size for _, size, _ in files)

    def _files(self) -> Iterator[tuple[int, int, str]]:
        """(last use in ns, bytes, path) of every model's files."""
        for model in _folders(self._root, _SHA256):
            for shard in _folders(model, _SHARD):
                with os.scandir(shard) as entries:
                    for entry in entries:
                        if _FILE.fullmatch(entry.name) and entry.is_file(follow_symlinks=False):
                            with suppress(FileNotFoundError):
                                facts = entry.stat(follow_symlinks=False)
                                yield facts.st_mtime_ns, facts.st_size, entry.path

    def _path(self, name: str) -> Path:
        return self._model / name[:2] / f"{name}{_SUFFIX}"


def _folders(folder: str | Path, pattern: re.Pattern[str]) -> Iterator[str]:
    """Folders named so. Empty ones, of a model no longer used, are removed instead."""
    with os.scandir(folder) as entries:
        found = [
            entry.path
            for entry in entries
            if pattern.fullmatch(entry.name) and entry.is_dir(follow_symlinks=False)
        ]
    for path in found:
        try:
            os.rmdir(path)
        except OSError:  # not empty
            yield path


def _open_plain(path: str, flags: int) -> int:
    """Follow no link that somebody put there, wait for no pipe."""
    return os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK)
