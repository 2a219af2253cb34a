"""Work that nobody asks for: sessions expire, pins of dead workers move, turns of dead routers end,
names are forgotten, and closed sessions with their turns and events, blobs removed."""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress

from agentserve.core.errors import UnknownSession
from agentserve.router.blobs import BlobStore
from agentserve.router.replica import Replica
from agentserve.router.sessions import Sessions
from agentserve.router.store import Store
from agentserve.router.tasks import end, forever
from agentserve.router.workers.registry import WorkerRegistry

REAP_EVERY_S = 1.0
TAKE_OVER_EVERY_S = 2.0
EXPIRE_EVERY_S = 60.0
PASS_PIN_TTL_S = 86_400.0
"""A pass-through name that was not used for a day is forgotten."""
_BATCH = 100


class Reaper:
    """Four tasks for a whole router, however many sessions there are."""

    def __init__(
        self,
        store: Store,
        sessions: Sessions,
        registry: WorkerRegistry,
        replica: Replica,
        retention_s: float,
        blobs: BlobStore,
    ) -> None:
        """``retention_s``: how long closed sessions are kept; 0: for good."""
        self._retention_s = retention_s
        self._store = store
        self._sessions = sessions
        self._registry = registry
        self._replica = replica
        self._blobs = blobs
        self._tasks: list[asyncio.Task[None]] = []

    async def start(self) -> None:
        self._tasks = [
            asyncio.create_task(forever(self._reap, REAP_EVERY_S)),
            asyncio.create_task(forever(self._follow_lives, 0)),
            asyncio.create_task(forever(self._take_over, TAKE_OVER_EVERY_S)),
            asyncio.create_task(forever(self._expire_blobs, EXPIRE_EVERY_S)),
        ]

    async def stop(self) -> None:
        await end(self._tasks)

    async def _reap(self) -> None:
        while due := await self._store.due(time.time(), _BATCH):
            for record in due:
                await self._sessions.expire(record)
        await self._store.drop_pass_pins(time.time() - PASS_PIN_TTL_S)
        while self._retention_s:
            old = await self._store.closed(time.time() - self._retention_s, _BATCH)
            for record in old:
                with suppress(UnknownSession):  # another router was faster
                    await self._sessions.delete(record.session.id)
            if not old:
                return

    async def _take_over(self) -> None:
        await self._sessions.recover(await self._replica.alive())

    async def _expire_blobs(self) -> None:
        while await self._blobs.expire():
            pass

    async def _follow_lives(self) -> None:
        worker_id, boot_id = await self._registry.lives.get()
        await self._sessions.pins.replace_pins(worker_id, boot_id)
