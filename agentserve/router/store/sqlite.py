"""The store in one SQLite file.

Two connections, each with its own thread: one writes, one reads (WAL keeps them out of each
other's way). What was written last of a session is kept in memory and not read back: one
process has the file to itself. ``synchronous=FULL`` syncs a commit, so that what was acknowledged
outlives a power cut as well.
"""

from __future__ import annotations

import json
import sqlite3
import time
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from pathlib import Path
from typing import Self, TypeVar

from agentserve.core.errors import StorageFailed
from agentserve.core.events import Event
from agentserve.core.plans import Piece
from agentserve.core.sessions import SessionStatus, TurnResult
from agentserve.router.store.base import (
    PIECES,
    EventDraft,
    HeldRecord,
    PinLoad,
    SessionRecord,
    TurnRecord,
    VersionConflict,
    storage_failed,
)
from agentserve.router.store.connection import BUSY_S, Connection
from agentserve.router.store.migrations import migrate
from agentserve.router.store.pin_cache import PinCache
from agentserve.router.store.recent import MAX_CHARACTERS, RecentSessions
from agentserve.router.store.sqlite_changes import copy_turns, insert_events, insert_turn
from agentserve.router.store.sqlite_ledger import SqliteLedger
from agentserve.router.store.sqlite_notes import SqliteNotes

T = TypeVar("T")
_OPEN = "status IN ('idle', 'running')"  # literally as in the partial index


class SqliteStore(SqliteNotes):
    """Implements router.store.base.Store. Make one by ``await SqliteStore.open(path)``."""

    def __init__(self, writer: Connection, reader: Connection, recent: RecentSessions) -> None:
        self._writer = writer
        self._reader = reader
        self._pass_pins = PinCache()
        self._recent = recent
        self.ledger = SqliteLedger(self._write, self._rows)

    @classmethod
    async def open(cls, path: Path, recent: int = MAX_CHARACTERS) -> Self:
        """Open or create the database, bringing its schema up to date. ``recent``: characters of
        what is kept in memory.

        Raises StorageFailed when the file cannot be opened or is no database of ours.
        """
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            writer = await Connection.open(path)
            try:
                await writer.run(_keep_a_log)
                await migrate(writer)
                reader = await Connection.open(path)
            except BaseException:  # cancellation included: its thread must not stay
                await writer.close()
                raise
        except (OSError, sqlite3.DatabaseError) as error:
            raise StorageFailed(
                f"the session database {path} cannot be opened: {error}",
                hint="if it is damaged, move it away: the router then begins with an empty one",
            ) from error
        await reader.execute("PRAGMA query_only = ON")
        return cls(writer, reader, RecentSessions(recent))

    async def close(self) -> None:
        await self._reader.close()
        await self._writer.close()

    # sessions

    async def create(
        self,
        record: SessionRecord,
        events: Sequence[EventDraft],
        parent: SessionRecord | None = None,
    ) -> None:
        session = record.session

        def write(db: sqlite3.Connection) -> None:
            if parent is not None:
                copy_turns(db, parent, session.id)
            cursor = db.execute(
                "INSERT INTO sessions (id, version, status, deadline, worker_id, boot_id,"
                " held_tokens, last_seq, record, tenant) VALUES (?, 0, ?, ?, ?, ?, ?, ?, ?, ?)"
                " ON CONFLICT DO NOTHING",
                (
                    session.id,
                    *_columns(record),
                    len(events),
                    record.model_dump_json(),
                    record.tenant,
                ),
            )
            if not cursor.rowcount:
                raise VersionConflict(session.id)
            insert_events(db, session.id, 0, events)

        if parent is not None:  # what is held of it is marked as forked
            self._recent.forget(parent.session.id)
        await self._write(write)
        if parent is None:
            self._recent.created(record)

    async def get(self, session_id: str) -> SessionRecord | None:
        if (recent := self._recent.get(session_id)) is not None:
            return recent.record
        rows = await self._rows("SELECT record, version FROM sessions WHERE id = ?", session_id)
        return _records(rows)[0] if rows else None

    async def update(
        self,
        record: SessionRecord,
        events: Sequence[EventDraft] = (),
        turn: TurnRecord | None = None,
        *,
        synced: bool = True,
    ) -> SessionRecord:
        session = record.session

        def write(db: sqlite3.Connection) -> int:
            rows = db.execute(
                "UPDATE sessions SET version = version + 1, status = ?, deadline = ?,"
                " worker_id = ?, boot_id = ?, held_tokens = ?, last_seq = last_seq + ?,"
                " record = ?"
                " WHERE id = ? AND version = ? RETURNING last_seq",
                (
                    *_columns(record),
                    len(events),
                    record.model_dump_json(),
                    session.id,
                    record.version,
                ),
            ).fetchall()
            if not rows:
                raise VersionConflict(session.id)
            insert_events(db, session.id, rows[0][0] - len(events), events)
            return 0 if turn is None else insert_turn(db, session.id, turn)

        try:
            characters = await self._write(write, synced=synced)
        except BaseException:  # cancellation included: it may be written all the same
            self._recent.forget(session.id)
            raise
        updated = record.model_copy(update={"version": record.version + 1})
        self._recent.updated(updated, turn, characters)
        return updated

    async def delete(self, session_id: str) -> None:
        def write(db: sqlite3.Connection) -> None:
            db.execute("DELETE FROM sessions WHERE id = ?", (session_id,))
            db.execute("DELETE FROM turns WHERE session_id = ?", (session_id,))
            db.execute("DELETE FROM held WHERE session_id = ?", (session_id,))
            db.execute("DELETE FROM events WHERE session_id = ?", (session_id,))

        try:
            await self._write(write)
        finally:  # cancellation included: it may be deleted all the same
            self._recent.forget(session_id)

    async def page(
        self,
        *,
        status: SessionStatus | None,
        before: int | None,
        limit: int,
        tenant: str | None = None,
    ) -> tuple[list[SessionRecord], int | None]:
        where, values = ["n < ?"], [before if before is not None else 2**62]
        for column, value in (("status", status), ("tenant", tenant)):
            if value is not None:
                where.append(f"{column} = ?")
                values.append(value)
        rows = await self._rows(
            f"SELECT record, version, n FROM sessions WHERE {' AND '.join(where)}"
            " ORDER BY n DESC LIMIT ?",
            *values,
            limit + 1,
        )
        more = len(rows) > limit
        rows = rows[:limit]
        return _records(rows), rows[-1][2] if more else None

    async def due(self, now: float, limit: int) -> list[SessionRecord]:
        return _records(
            await self._rows(
                "SELECT record, version FROM sessions INDEXED BY sessions_due"
                " WHERE status IN ('idle', 'paused') AND deadline <= ? ORDER BY deadline LIMIT ?",
                now,
                limit,
            )
        )

    async def closed(self, before: float, limit: int) -> list[SessionRecord]:
        return _records(
            await self._rows(
                "SELECT record, version FROM sessions INDEXED BY sessions_closed"
                " WHERE status IN ('released', 'expired') AND deadline < ?"
                " ORDER BY deadline LIMIT ?",
                before,
                limit,
            )
        )

    async def counts(self) -> dict[str, int]:
        return dict(await self._rows("SELECT status, count(*) FROM sessions GROUP BY status"))

    # turns and events

    async def turn(self, session_id: str, epoch: int) -> TurnRecord | None:
        recent = self._recent.get(session_id)
        if recent is not None and recent.turn is not None and recent.turn.epoch == epoch:
            return recent.turn
        rows = await self._rows(
            "SELECT epoch, key, result, pieces FROM turns WHERE session_id = ? AND epoch = ?",
            session_id,
            epoch,
        )
        for number, key, result, pieces in rows:
            return TurnRecord(
                epoch=number,
                key=key,
                result=TurnResult.model_validate_json(result),
                pieces=PIECES.validate_json(pieces),
            )
        return None

    async def turns(self, session_id: str, start: int, limit: int) -> list[TurnResult]:
        rows = await self._rows(
            "SELECT result FROM turns WHERE session_id = ? AND epoch >= ? ORDER BY epoch LIMIT ?",
            session_id,
            start,
            limit,
        )
        return [TurnResult.model_validate_json(row[0]) for row in rows]

    async def transcript(self, session_id: str) -> list[Piece]:
        recent = self._recent.get(session_id)
        if recent is not None and recent.transcript is not None:
            return list(recent.transcript)
        rows = await self._rows(
            "SELECT pieces FROM turns WHERE session_id = ? ORDER BY epoch", session_id
        )
        return [piece for row in rows for piece in PIECES.validate_json(row[0])]

    async def held(self, session_id: str) -> HeldRecord | None:
        recent = self._recent.get(session_id)
        if recent is not None and recent.held is not None:
            return recent.held
        rows = await self._rows("SELECT record FROM held WHERE session_id = ?", session_id)
        return HeldRecord.model_validate_json(rows[0][0]) if rows else None

    async def events(self, session_id: str, after: int, limit: int) -> list[Event]:
        rows = await self._rows(
            "SELECT seq, type, at, data FROM events WHERE session_id = ? AND seq > ?"
            " ORDER BY seq LIMIT ?",
            session_id,
            after,
            limit,
        )
        return [
            Event(session_id=session_id, seq=seq, type=kind, at=at, data=json.loads(data))
            for seq, kind, at, data in rows
        ]

    # pins

    async def pin_loads(self) -> dict[str, PinLoad]:
        rows = await self._rows(
            "SELECT worker_id, count(*), sum(held_tokens) FROM sessions"
            f" INDEXED BY sessions_pinned WHERE {_OPEN} AND worker_id IS NOT NULL"
            " GROUP BY worker_id"
        )
        return {worker: PinLoad(sessions, tokens) for worker, sessions, tokens in rows}

    async def pinned(self, worker_id: str, limit: int, *, but: str = "") -> list[SessionRecord]:
        return _records(
            await self._rows(
                "SELECT record, version FROM sessions INDEXED BY sessions_pinned"
                f" WHERE {_OPEN} AND worker_id = ? AND boot_id <> ? LIMIT ?",
                worker_id,
                but,
                limit,
            )
        )

    # routers

    async def beat(self, router: str, ttl_s: float) -> None:
        """Nothing: one process has the file to itself."""

    async def alive(self) -> set[str]:
        return set()

    async def agree(self, name: str, value: str) -> str:
        return value

    async def changes(self) -> AsyncIterator[str]:
        """None: one process has the file to itself."""
        for session_id in ():
            yield session_id

    # plumbing

    async def _write(self, work: Callable[[sqlite3.Connection], T], *, synced: bool = True) -> T:
        """``work`` in a transaction: done or not, also when the caller is cancelled."""
        try:
            return await self._writer.transaction(work, synced=synced)
        except sqlite3.OperationalError as error:  # a full disk, a folder made read-only
            raise storage_failed(error) from error

    async def _rows(self, sql: str, *values: object) -> list:
        return await self._reader.execute(sql, values)


def _keep_a_log(db: sqlite3.Connection) -> None:
    """Turn WAL on. While another process does so SQLite gives up at once, whatever its timeout."""
    until = time.monotonic() + BUSY_S
    while True:
        try:
            db.execute("PRAGMA journal_mode = WAL")
            return
        except sqlite3.OperationalError:
            if time.monotonic() > until:
                raise
            time.sleep(0.02)  # in the writer's own thread


def _columns(record: SessionRecord) -> tuple[str, float, str | None, str | None, int]:
    pin = record.session.pin
    return (
        record.session.status.value,
        record.deadline,
        pin.worker_id if pin else None,
        pin.boot_id if pin else None,
        pin.held_tokens if pin else 0,
    )


def _records(rows: Iterable) -> list[SessionRecord]:
    return [
        SessionRecord.model_validate_json(row[0]).model_copy(update={"version": row[1]})
        for row in rows
    ]
