"""This router among those that share its store.

It says that it lives, so that the others leave its turns alone, and hears what they change. A turn
whose router says no more that it lives is nobody's: its session can be asked again.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import Awaitable, Callable

from agentserve.core.errors import StorageFailed
from agentserve.router.store import Store
from agentserve.router.tasks import end

log = logging.getLogger(__name__)
BEAT_EVERY_S = 1.0
BEAT_TTL_S = 6.0
"""A router that was silent for so long is dead to the others."""


class Replica:
    """``id`` names this process in the store."""

    def __init__(self, store: Store, heard: Callable[[str], Awaitable[None]]) -> None:
        """``heard`` is told each session that another router changed."""
        self.id = f"r-{secrets.token_hex(8)}"
        self._store = store
        self._heard = heard
        self._tasks: list[asyncio.Task[None]] = []

    async def start(self) -> None:
        await self._store.beat(self.id, BEAT_TTL_S)
        self._tasks = [asyncio.create_task(self._beat()), asyncio.create_task(self._listen())]

    async def stop(self) -> None:
        """To the others it is dead at once."""
        await end(self._tasks)
        try:
            await self._store.beat(self.id, 0)
        except StorageFailed as error:
            log.info("the other routers wait for %g s until they take over: %s", BEAT_TTL_S, error)

    async def alive(self) -> set[str]:
        """The routers that may be running turns, this one included."""
        return {*await self._store.alive(), self.id}

    async def _beat(self) -> None:
        while True:
            await asyncio.sleep(BEAT_EVERY_S)
            try:
                await self._store.beat(self.id, BEAT_TTL_S)
            except StorageFailed as error:
                log.warning("the other routers may take this one for dead: %s", error)

    async def _listen(self) -> None:
        async for session_id in self._store.changes():
            try:
                await self._heard(session_id)
            except StorageFailed as error:
                log.warning("a change of session %s was not looked at: %s", session_id, error)
