"""Where the bytes of blobs are: what the ledger of a blob store stands on."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from contextlib import AbstractAsyncContextManager, nullcontext
from pathlib import Path
from typing import IO, Protocol

from agentserve.router.blobs.folder import BlobFolder


class BlobBackend(Protocol):
    """Every call may raise StorageFailed. What was written is durable when the call returns."""

    folder: BlobFolder
    """Where program hosts look, and uploads arrive."""
    id: str
    """Of the place that has all blobs: routers that share a store must have the same one."""

    async def has(self, tenant: str, sha256: str) -> bool: ...

    async def read(self, tenant: str, sha256: str) -> bytes | None:
        """None when there is no such blob."""
        ...

    async def put(self, tenant: str, sha256: str, data: bytes) -> None: ...

    async def keep(self, file: IO[bytes], tenant: str, sha256: str) -> None:
        """Store what is in one of the folder's new files."""
        ...

    async def remove(self, tenant: str, sha256: str) -> None: ...

    def local(self, tenant: str, names: Collection[str]) -> AbstractAsyncContextManager[None]:
        """Within it, those blobs that there are are in the folder."""
        ...


class FolderBackend:
    """Implements BlobBackend: the folder has everything."""

    def __init__(self, root: Path) -> None:
        self.folder = BlobFolder(root)
        self.id = self.folder.id

    async def has(self, tenant: str, sha256: str) -> bool:
        return await asyncio.to_thread(self.folder.has, tenant, sha256)

    async def read(self, tenant: str, sha256: str) -> bytes | None:
        return await asyncio.to_thread(self.folder.read, tenant, sha256)

    async def put(self, tenant: str, sha256: str, data: bytes) -> None:
        await asyncio.to_thread(self.folder.put, tenant, sha256, data)

    async def keep(self, file: IO[bytes], tenant: str, sha256: str) -> None:
        await asyncio.to_thread(self.folder.keep, file, tenant, sha256)

    async def remove(self, tenant: str, sha256: str) -> None:
        await asyncio.to_thread(self.folder.remove, tenant, sha256)

    def local(self, tenant: str, names: Collection[str]) -> AbstractAsyncContextManager[None]:
        return nullcontext()
