"""The pictures of a turn on their way into the blob store, beside the program's run."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Mapping
from typing import Any, TypeVar

from agentserve.core.plans import Sha256
from agentserve.router.blobs import BlobStore
from agentserve.router.tasks import Tasks, end

T = TypeVar("T")


class Storing:
    """Of one turn. Its answer waits for ``done``."""

    def __init__(self, blobs: BlobStore, tenant: str, tasks: Tasks) -> None:
        """``tasks`` see to what a stopping router leaves."""
        self._blobs = blobs
        self._tenant = tenant
        self._tasks = tasks
        self._names: set[Sha256] = set()
        self._puts: list[asyncio.Task[None]] = []

    def begin(self, pictures: Mapping[Sha256, bytes]) -> None:
        """Store those that were not stored here before."""
        new = {name: data for name, data in pictures.items() if name not in self._names}
        if new:
            self._names.update(new)
            self._puts.append(self._tasks.start(self._blobs.put(self._tenant, new)))

    async def beside(self, work: Coroutine[Any, Any, T]) -> T:
        """The result of ``work``, however far storing is then. When a picture cannot be stored, it
        is cancelled. Raises also QuotaExceeded, StorageFailed."""
        working = asyncio.create_task(work)
        puts = set(self._puts)
        try:
            while not working.done():
                done, _ = await asyncio.wait({working, *puts}, return_when=asyncio.FIRST_COMPLETED)
                for put in done & puts:
                    put.result()
                puts -= done
            return working.result()
        finally:
            await end([working])

    async def done(self) -> None:
        """Raises QuotaExceeded, StorageFailed."""
        for put in self._puts:
            await put

    async def end(self) -> None:
        """Whether or not all is stored."""
        await end(self._puts)
