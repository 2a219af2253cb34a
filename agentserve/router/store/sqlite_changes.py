"""What several tables change by at once, inside of the caller's transaction."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Sequence
from datetime import UTC, datetime

from agentserve.router.store.base import (
    PIECES,
    EventDraft,
    SessionRecord,
    TurnRecord,
    VersionConflict,
)


def copy_turns(db: sqlite3.Connection, parent: SessionRecord, session_id: str) -> None:
    """Give a fork what its parent has, which must not have changed since it was read. Raises
    VersionConflict."""
    of = parent.session.id
    rows = db.execute("SELECT version FROM sessions WHERE id = ?", (of,))
    if [row[0] for row in rows] != [parent.version]:
        raise VersionConflict(of)
    db.execute(
        "INSERT INTO turns (session_id, epoch, key, result, pieces)"
        " SELECT ?, epoch, key, json_set(result, '$.session_id', ?), pieces"
        " FROM turns WHERE session_id = ?",
        (session_id, session_id, of),
    )
    db.execute(
        "UPDATE held SET record = json_set(record, '$.forked', json('true')) WHERE session_id = ?",
        (of,),
    )
    db.execute(
        "INSERT INTO held (session_id, record) SELECT ?, record FROM held WHERE session_id = ?",
        (session_id, of),
    )


def insert_events(
    db: sqlite3.Connection, session_id: str, last_seq: int, events: Sequence[EventDraft]
) -> None:
    """Append a session's events behind ``last_seq``."""
    at = datetime.now(UTC).isoformat()
    db.executemany(
        "INSERT INTO events (session_id, seq, type, at, data) VALUES (?, ?, ?, ?, ?)",
        [
            (session_id, seq, event.type.value, at, json.dumps(event.data))
            for seq, event in enumerate(events, start=last_seq + 1)
        ],
    )


def insert_turn(db: sqlite3.Connection, session_id: str, turn: TurnRecord) -> int:
    """A completed turn, and what is held since. Returns its number of characters."""
    result = turn.result.model_dump_json()
    pieces = PIECES.dump_json(list(turn.pieces)).decode()
    held = "" if turn.held is None else turn.held.model_dump_json()
    db.execute(
        "INSERT INTO turns (session_id, epoch, key, result, pieces) VALUES (?, ?, ?, ?, ?)",
        (session_id, turn.epoch, turn.key, result, pieces),
    )
    if held:
        db.execute(
            "INSERT OR REPLACE INTO held (session_id, record) VALUES (?, ?)", (session_id, held)
        )
    return len(result) + len(pieces) + len(held)
