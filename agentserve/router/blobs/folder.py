"""The files of blobs, laid out as core.blobs says. Everything here blocks: call it in a thread.

A blob appears under its name in one step, complete and synced: a reader never sees half of one.
"""

from __future__ import annotations

import os
import secrets
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from agentserve.core.blobs import blob_path
from agentserve.router.store import storage_failed

OLD_UPLOAD_S = 3600.0
"""An upload that nobody has written to for so long is nobody's."""


class BlobFolder:
    """Every ``sha256`` must be 64 hex digits already."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._incoming = root / "incoming"
        self._incoming.mkdir(parents=True, exist_ok=True)
        for left in self._incoming.iterdir():  # uploads that a crash cut off
            with suppress(FileNotFoundError):  # another router of this folder was faster
                if time.time() - left.stat().st_mtime > OLD_UPLOAD_S:
                    left.unlink()
        self.id = self._named()
        """The routers that share a store must have the same one."""

    def _named(self) -> str:
        path = self.root / "id"
        with suppress(FileExistsError), self.new_file() as file:
            write_all(file, secrets.token_hex(16).encode())
            os.link(file.name, path)
        return path.read_text()

    def has(self, tenant: str, sha256: str) -> bool:
        return blob_path(self.root, tenant, sha256).is_file()

    def read(self, tenant: str, sha256: str) -> bytes | None:
        """None when there is no such file."""
        with suppress(FileNotFoundError):
            return blob_path(self.root, tenant, sha256).read_bytes()
        return None

    def put(self, tenant: str, sha256: str, data: bytes) -> None:
        """Raises StorageFailed."""
        if not self.has(tenant, sha256):
            with self.new_file() as file:
                write_all(file, data)
                self.keep(file, tenant, sha256)

    @contextmanager
    def new_file(self) -> Iterator[IO[bytes]]:
        """A file beside the blobs; it is gone after the block unless it was kept. Raises
        StorageFailed."""
        with _storing():
            # unbuffered: closing it after a failed write must not try to write again
            file = tempfile.NamedTemporaryFile(dir=self._incoming, delete=False, buffering=0)
        try:
            with file:
                yield file
        finally:
            Path(file.name).unlink(missing_ok=True)

    def keep(self, file: IO[bytes], tenant: str, sha256: str) -> None:
        """Give a new file its name. Raises StorageFailed."""
        path = blob_path(self.root, tenant, sha256)
        with _storing():
            path.parent.mkdir(parents=True, exist_ok=True)
            os.fsync(file.fileno())
            os.replace(file.name, path)

    def remove(self, tenant: str, sha256: str) -> None:
        """Raises StorageFailed."""
        with _storing():
            blob_path(self.root, tenant, sha256).unlink(missing_ok=True)


def write_all(file: IO[bytes], data: bytes) -> None:
    """An unbuffered write may store a part only, without an error: on a disk that is just full the
    rest must fail, not go missing. Raises StorageFailed."""
    rest = memoryview(data)
    with _storing():
        while rest:
            rest = rest[file.write(rest) :]


@contextmanager
def _storing() -> Iterator[None]:
    """Only around our own files: a client's broken connection is an OSError as well."""
    try:
        yield
    except OSError as error:
        raise storage_failed(error) from error
