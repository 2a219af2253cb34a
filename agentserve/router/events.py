"""The log of a session: every change is written with its events, and followers are told.

Followers wait in this process; the events themselves are read from the store, so a follower that
comes late, or comes back with a cursor, misses nothing. What other routers change is told by the
store, which may miss some: so followers look by themselves now and then.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import contextmanager, suppress

from agentserve.core.events import TERMINAL, Event, EventPage
from agentserve.router.store import EventDraft, SessionRecord, Store, TurnRecord

PAGE = 500
LOOK_EVERY_S = 5.0


class EventLog:
    """All writes to sessions go through here."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._followers: dict[str, set[asyncio.Event]] = {}

    async def create(
        self,
        record: SessionRecord,
        events: Sequence[EventDraft],
        parent: SessionRecord | None = None,
    ) -> None:
        """See Store.create."""
        await self._store.create(record, events, parent)

    async def update(
        self,
        record: SessionRecord,
        *events: EventDraft,
        turn: TurnRecord | None = None,
        synced: bool = True,
    ) -> SessionRecord:
        """Store.update, then wake the session's followers. Raises VersionConflict."""
        updated = await self._store.update(record, events, turn, synced=synced)
        self.wake(record.session.id)
        return updated

    async def delete(self, session_id: str) -> None:
        await self._store.delete(session_id)
        self.wake(session_id)

    async def page(self, session_id: str, after: int, limit: int) -> EventPage:
        events = await self._store.events(session_id, after, limit)
        return EventPage(events=events, next_cursor=events[-1].seq if events else after)

    async def follow(self, session_id: str, after: int) -> AsyncIterator[Event]:
        """Events behind ``after`` as they happen, until the session is closed or deleted."""
        with self._listening(session_id) as changed:
            while True:
                changed.clear()
                record = await self._store.get(session_id)
                events = await self._store.events(session_id, after, PAGE)
                for event in events:
                    yield event
                    if event.type in TERMINAL:
                        return
                    after = event.seq
                if not events:
                    if record is None or record.closed:
                        return
                    await _wait(changed)

    async def changed(self, record: SessionRecord) -> None:
        """Returns when a session may be another one than ``record``, in this process or another."""
        with self._listening(record.session.id) as changed:
            current = await self._store.get(record.session.id)
            if current is not None and current.version == record.version:
                await _wait(changed)

    def wake(self, session_id: str) -> None:
        """Tell a session's followers that it has changed."""
        for changed in self._followers.get(session_id, ()):
            changed.set()

    @contextmanager
    def _listening(self, session_id: str) -> Iterator[asyncio.Event]:
        changed = asyncio.Event()
        followers = self._followers.setdefault(session_id, set())
        followers.add(changed)
        try:
            yield changed
        finally:
            followers.discard(changed)
            if not followers:
                self._followers.pop(session_id, None)


async def _wait(changed: asyncio.Event) -> None:
    with suppress(TimeoutError):
        async with asyncio.timeout(LOOK_EVERY_S):
            await changed.wait()
