"""A turn in this process: who waits for it, what was told of it, and how it ends early."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

from agentserve.core.deadlines import Deadline
from agentserve.core.errors import AgentServeError, Unavailable
from agentserve.core.events import TurnEventType
from agentserve.core.sessions import TurnResult
from agentserve.router.admission import Place
from agentserve.router.store import SessionRecord

Told = tuple[TurnEventType, dict[str, Any]]


class AskedTurn:
    """One turn, from the first request for it until it is answered, has failed or was ended.

    Nobody waits for one that is queued and whose clients have all left: it ends. One that runs goes
    on for them to ask again, unless all of them said that they would not.
    """

    def __init__(self, record: SessionRecord, key: str, place: Place, deadline: Deadline) -> None:
        self.epoch = record.session.epoch
        self.key = key
        """Which request it answers."""
        self.place = place
        self.deadline = deadline
        """Of the request that began it."""
        self.task: asyncio.Task[TurnResult]
        self.version: int | None = None
        """Of the record that says that it waits or runs."""
        self.ended: AgentServeError | None = None
        """Why it was ended early."""
        self.waiting = 0
        """Those who wait for its answer."""
        self._goes_on = False
        self._told: list[Told] = []
        self._changed = asyncio.Event()

    # the turn's side

    def tell(self, kind: TurnEventType, **data: Any) -> None:
        """Those who follow it."""
        self._told.append((kind, data))
        self._changed.set()
        self._changed = asyncio.Event()

    def check(self) -> None:
        """Raises CancelledError once the turn was ended: a library may have lost the first one."""
        if self.ended is not None:
            raise asyncio.CancelledError

    def over(self, record: SessionRecord) -> bool:
        """Whether the store, as ``record`` shows it, knows that this turn has come to its end."""
        if record.session.epoch > self.epoch:
            return True
        known = self.version is not None and record.version >= self.version
        return known and record.running is None

    # those who ask

    def join(self, *, goes_on: bool) -> None:
        """One more waits, until it leaves; ``goes_on`` tells whether the turn is to go on then."""
        self.waiting += 1
        self._goes_on = self._goes_on or goes_on

    def leave(self) -> bool:
        """One waits no more. Whether the turn is to end for that."""
        self.waiting -= 1
        if self.waiting or self.task.done() or self.ended is not None:
            return False
        return not self.place.runs or not self._goes_on

    async def result(self, deadline: Deadline) -> TurnResult:
        """Raises what the turn raised, and TurnTimeout for one that has less time than the turn.
        To all but the one who began it, it is a repeated answer."""
        mine = deadline is self.deadline
        await asyncio.wait({self.task}, timeout=None if mine else deadline.remaining())
        if not self.task.done():
            raise deadline.exceeded()
        if self.task.cancelled():
            raise Unavailable("the router stops", hint="ask again with the same epoch")
        result = self.task.result()
        return result if mine else result.model_copy(update={"replayed": True})

    async def follow(self, deadline: Deadline) -> AsyncIterator[Told]:
        """What is told of the turn, from its beginning until it ends. Raises TurnTimeout."""
        seen = 0
        while True:
            changed = self._changed
            if seen < len(self._told):
                yield self._told[seen]
                seen += 1
            elif self.task.done():
                return
            else:
                await self._wait(changed, deadline)

    async def _wait(self, changed: asyncio.Event, deadline: Deadline) -> None:
        waiter = asyncio.create_task(changed.wait())
        timeout = None if deadline is self.deadline else deadline.remaining()
        try:
            await asyncio.wait(
                {waiter, self.task}, timeout=timeout, return_when=asyncio.FIRST_COMPLETED
            )
        finally:
            waiter.cancel()
