"""Blobs in an object store, with a folder as a bounded cache of it.

A file is in the folder only when its object is in the store. Files that something needs now are
held; all others may go, the least recently used first, once there are more bytes than there should.
"""

from __future__ import annotations

import asyncio
import shutil
import weakref
from collections import Counter, OrderedDict
from collections.abc import AsyncIterator, Collection, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import IO, Self

from agentserve.core.blobs import blob_path, sha256_of
from agentserve.core.errors import StorageFailed
from agentserve.router.blobs.folder import BlobFolder
from agentserve.router.blobs.objects import ID, ObjectStore

FETCHED_AT_ONCE = 16
REMOVED_AT_ONCE = 20
"""Files removed before others have their turn."""


class CachedBackend:
    """Implements BlobBackend. Make one by ``await CachedBackend.open(…)``.

    Files are removed in the event loop's own thread: between the look whether somebody holds one
    and its end, nobody can begin to.
    """

    def __init__(self, folder: BlobFolder, objects: ObjectStore, place: str, limit: int) -> None:
        self.folder = folder
        self.id = place
        self._objects = objects
        self._limit = limit
        self._sizes: OrderedDict[Path, int] = OrderedDict()
        """Of the files in the folder, the least recently used first."""
        self._total = 0
        self._held: Counter[Path] = Counter()
        self._fetches = asyncio.Semaphore(FETCHED_AT_ONCE)
        # Only while somebody waits: a lock lives as long as a task holds it.
        self._filling: weakref.WeakValueDictionary[Path, asyncio.Lock] = (
            weakref.WeakValueDictionary()
        )

    @classmethod
    async def open(cls, root: Path, objects: ObjectStore, limit: int) -> Self:
        """``root``: where the cache lies; those of other object stores there go. ``limit``: bytes.
        Raises StorageFailed."""
        place = await objects.id()
        folder = BlobFolder(root / place)
        backend = cls(folder, objects, place, limit)
        for path, size in await asyncio.to_thread(_found, folder.root):
            backend._add(path, size)
        await backend._shrink()
        return backend

    async def has(self, tenant: str, sha256: str) -> bool:
        there = await asyncio.to_thread(self.folder.has, tenant, sha256)
        return there or await self._objects.has(tenant, sha256)

    async def read(self, tenant: str, sha256: str) -> bytes | None:
        async with self.local(tenant, [sha256]):
            return await asyncio.to_thread(self.folder.read, tenant, sha256)

    async def put(self, tenant: str, sha256: str, data: bytes) -> None:
        async with self._file(tenant, sha256) as path:
            if not await asyncio.to_thread(path.is_file):
                await self._objects.put(tenant, sha256, data)
                await asyncio.to_thread(self.folder.put, tenant, sha256, data)
            self._add(path, len(data))

    async def keep(self, file: IO[bytes], tenant: str, sha256: str) -> None:
        async with self._file(tenant, sha256) as path:
            arrived = Path(file.name)
            await self._objects.put(tenant, sha256, arrived)
            size = (await asyncio.to_thread(arrived.stat)).st_size
            await asyncio.to_thread(self.folder.keep, file, tenant, sha256)
            self._add(path, size)

    async def remove(self, tenant: str, sha256: str) -> None:
        """Other routers' caches keep what they have, unseen, until it is the oldest there."""
        async with self._file(tenant, sha256) as path:
            await self._objects.remove(tenant, sha256)
            await asyncio.to_thread(self.folder.remove, tenant, sha256)
            self._total -= self._sizes.pop(path, 0)

    @asynccontextmanager
    async def local(self, tenant: str, names: Collection[str]) -> AsyncIterator[None]:
        paths = {name: blob_path(self.folder.root, tenant, name) for name in names}
        with self._holding(paths.values()):
            missing = await asyncio.to_thread(
                lambda: [name for name, path in paths.items() if not path.is_file()]
            )
            for path in paths.values():
                self._use(path)
            await asyncio.gather(*(self._fetch(tenant, name) for name in missing))
            yield
        await self._shrink()

    async def _fetch(self, tenant: str, sha256: str) -> None:
        async with self._fetches, self._file(tenant, sha256) as path:
            if await asyncio.to_thread(path.is_file):
                return  # another turn was faster
            data = await self._objects.read(tenant, sha256)
            if data is None:
                return
            if sha256_of(data) != sha256:
                raise StorageFailed(
                    f"what the object store {self._objects.where} has as blob {sha256} is "
                    "something else",
                    hint="its operator must look who else writes there",
                )
            await asyncio.to_thread(self.folder.put, tenant, sha256, data)
            self._add(path, len(data))

    @asynccontextmanager
    async def _file(self, tenant: str, sha256: str) -> AsyncIterator[Path]:
        """The path of a file that nobody else writes or removes meanwhile."""
        path = blob_path(self.folder.root, tenant, sha256)
        lock = self._filling.setdefault(path, asyncio.Lock())
        async with lock:
            with self._holding([path]):
                yield path
        await self._shrink()

    @contextmanager
    def _holding(self, paths: Collection[Path]) -> Iterator[None]:
        self._held.update(paths)
        try:
            yield
        finally:
            self._held.subtract(paths)
            for path in paths:
                if not self._held[path]:
                    del self._held[path]

    def _add(self, path: Path, size: int) -> None:
        self._total += size - self._sizes.pop(path, 0)
        self._sizes[path] = size

    def _use(self, path: Path) -> None:
        if path in self._sizes:
            self._sizes.move_to_end(path)

    async def _shrink(self) -> None:
        for number in range(1, len(self._sizes) + 1):
            if self._total <= self._limit or not self._sizes:
                return
            path, size = next(iter(self._sizes.items()))
            if self._held[path]:
                self._sizes.move_to_end(path)
                continue
            del self._sizes[path]
            self._total -= size
            path.unlink(missing_ok=True)
            if number % REMOVED_AT_ONCE == 0:
                await asyncio.sleep(0)


def _found(root: Path) -> list[tuple[Path, int]]:
    """The blobs in a cache and their sizes, the oldest first. Caches beside it go."""
    for other in root.parent.iterdir():
        if other != root and ID.fullmatch(other.name):
            shutil.rmtree(other, ignore_errors=True)
    files = [(path, path.stat()) for path in root.glob("*/??/*")]
    files.sort(key=lambda file: file[1].st_mtime)
    return [(path, stat.st_size) for path, stat in files]
