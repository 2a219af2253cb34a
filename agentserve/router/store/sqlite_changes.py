"""What several tables change by at once, inside of the caller's transaction."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import UTC, datetime

import aiosqlite

from agentserve.router.store.base import EventDraft, SessionRecord, VersionConflict


async def copy_turns(db: aiosqlite.Connection, parent: SessionRecord, session_id: str) -> None:
    """Give a fork what its parent has, which must not have changed since it was read. Raises
    VersionConflict."""
    of = parent.session.id
    rows = await db.execute_fetchall("SELECT version FROM sessions WHERE id = ?", (of,))
    if [row[0] for row in rows] != [parent.version]:
        raise VersionConflict(of)
    await db.execute(
        "INSERT INTO turns (session_id, epoch, key, result, pieces)"
        " SELECT ?, epoch, key, json_set(result, '$.session_id', ?), pieces"
        " FROM turns WHERE session_id = ?",
        (session_id, session_id, of),
    )
    await db.execute(
        "UPDATE held SET record = json_set(record, '$.forked', json('true')) WHERE session_id = ?",
        (of,),
    )
    await db.execute(
        "INSERT INTO held (session_id, record) SELECT ?, record FROM held WHERE session_id = ?",
        (session_id, of),
    )


async def insert_events(
    db: aiosqlite.Connection, session_id: str, last_seq: int, events: Sequence[EventDraft]
) -> None:
    """Append a session's events behind ``last_seq``."""
    at = datetime.now(UTC).isoformat()
    await db.executemany(
        "INSERT INTO events (session_id, seq, type, at, data) VALUES (?, ?, ?, ?, ?)",
        [
            (session_id, seq, event.type.value, at, json.dumps(event.data))
            for seq, event in enumerate(events, start=last_seq + 1)
        ],
    )
