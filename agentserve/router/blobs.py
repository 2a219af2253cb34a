"""Each tenant's blobs by their SHA-256 in a local folder, laid out as core.blobs says.

A blob appears under its name in one step, complete and synced: a reader never sees half of one.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import secrets
import tempfile
import time
from collections.abc import AsyncIterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from agentserve.core.blobs import blob_path, sha256_of
from agentserve.core.errors import InvalidRequest, UnknownBlob
from agentserve.router.store import storage_failed

OLD_UPLOAD_S = 3600.0
"""An upload that nobody has written to for so long is nobody's."""


class BlobStore:
    """The router's side of the blob folder. Every ``sha256`` must be 64 hex digits already; what
    another tenant has put is unknown."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._incoming = root / "incoming"
        self._incoming.mkdir(parents=True, exist_ok=True)
        for left in self._incoming.iterdir():  # uploads that a crash cut off
            with suppress(FileNotFoundError):  # another router of this folder was faster
                if time.time() - left.stat().st_mtime > OLD_UPLOAD_S:
                    left.unlink()
        self.id = self._named()
        """Of the folder: the routers that share a store must have the same one."""

    def _named(self) -> str:
        path = self.root / "id"
        with suppress(FileExistsError), self._new_file() as file:
            _write_all(file, secrets.token_hex(16).encode())
            os.link(file.name, path)
        return path.read_text()

    async def has(self, tenant: str, sha256: str) -> bool:
        return await asyncio.to_thread(blob_path(self.root, tenant, sha256).is_file)

    async def size(self, tenant: str, sha256: str) -> int:
        """Bytes of a blob. Raises UnknownBlob."""
        try:
            return (await asyncio.to_thread(blob_path(self.root, tenant, sha256).stat)).st_size
        except FileNotFoundError:
            raise _unknown(sha256) from None

    async def read(self, tenant: str, sha256: str) -> bytes:
        """Raises UnknownBlob."""
        try:
            return await asyncio.to_thread(blob_path(self.root, tenant, sha256).read_bytes)
        except FileNotFoundError:
            raise _unknown(sha256) from None

    async def put(self, tenant: str, data: bytes) -> str:
        """Store bytes and return their SHA-256. Raises StorageFailed."""
        return await asyncio.to_thread(self._put, tenant, data)

    async def receive(self, tenant: str, sha256: str, chunks: AsyncIterable[bytes]) -> int:
        """Store what arrives under the name it must have; returns its number of bytes.

        Raises InvalidRequest, keeping nothing, when the bytes have another hash; StorageFailed.
        """
        digest, size = hashlib.sha256(), 0
        with self._new_file() as file:
            async for chunk in chunks:
                digest.update(chunk)
                size += len(chunk)
                with _storing():
                    await asyncio.to_thread(_write_all, file, chunk)
            if digest.hexdigest() != sha256:
                raise InvalidRequest(
                    f"the {size} bytes received have the SHA-256 {digest.hexdigest()}, "
                    f"not {sha256}",
                    hint="send the blob to the path of its own hash",
                )
            with _storing():
                await asyncio.to_thread(self._keep, file, tenant, sha256)
        return size

    def _put(self, tenant: str, data: bytes) -> str:
        sha256 = sha256_of(data)
        if not blob_path(self.root, tenant, sha256).is_file():
            with self._new_file() as file, _storing():
                _write_all(file, data)
                self._keep(file, tenant, sha256)
        return sha256

    @contextmanager
    def _new_file(self) -> Iterator[IO[bytes]]:
        """A file beside the blobs; it is gone after the block unless it was kept."""
        with _storing():
            # unbuffered: closing it after a failed write must not try to write again
            file = tempfile.NamedTemporaryFile(dir=self._incoming, delete=False, buffering=0)
        try:
            with file:
                yield file
        finally:
            Path(file.name).unlink(missing_ok=True)

    def _keep(self, file: IO[bytes], tenant: str, sha256: str) -> None:
        path = blob_path(self.root, tenant, sha256)
        path.parent.mkdir(parents=True, exist_ok=True)
        os.fsync(file.fileno())
        os.replace(file.name, path)


def _write_all(file: IO[bytes], data: bytes) -> None:
    """An unbuffered write may store a part only, without an error: on a disk that is just full the
    rest must fail, not go missing."""
    rest = memoryview(data)
    while rest:
        rest = rest[file.write(rest) :]


@contextmanager
def _storing() -> Iterator[None]:
    """Only around our own files: a client's broken connection is an OSError as well."""
    try:
        yield
    except OSError as error:
        raise storage_failed(error) from error


def _unknown(sha256: str) -> UnknownBlob:
    return UnknownBlob(f"there is no blob {sha256}", hint=f"send it first: PUT /v1/blobs/{sha256}")
