"""What only the SQLite store has: a file, migrations, query plans."""

from __future__ import annotations

import sqlite3

import pytest

from agentserve.core.errors import StorageFailed
from agentserve.router.store import SqliteStore
from agentserve.router.store.migrations import MIGRATIONS
from agentserve.vision.layouts import LayoutLearner

from .records import record


async def test_a_store_of_the_first_schema_is_brought_up_to_date(tmp_path):
    path = tmp_path / "sessions.sqlite"
    opened = await SqliteStore.open(path)
    await opened.create(record(), [])
    await opened.close()
    with sqlite3.connect(path) as db:
        db.execute("DROP TABLE layouts")
        db.execute("DROP TABLE held")
        db.execute("DROP TABLE drains")
        db.execute("DROP TABLE blobs")
        db.execute("DROP TABLE blob_sums")
        db.execute("DROP INDEX sessions_pinned")
        db.execute("ALTER TABLE sessions DROP COLUMN held_tokens")
        db.execute("CREATE INDEX sessions_pinned ON sessions (worker_id, boot_id)")
        db.execute("PRAGMA user_version = 1")
    db.close()
    opened = await SqliteStore.open(path)
    assert (await opened.get("s_1")).session.cell is None
    await opened.put_layouts("a" * 64, LayoutLearner())
    assert await opened.held("s_1") is None
    assert await opened.drains() == {}
    assert await opened.ledger.used("") == 0
    await opened.close()


async def test_migrations_run_once_and_newer_schemas_are_refused(tmp_path):
    path = tmp_path / "sessions.sqlite"
    for _ in range(2):
        store = await SqliteStore.open(path)
        await store.close()
    with sqlite3.connect(path) as db:
        assert db.execute("PRAGMA user_version").fetchone() == (len(MIGRATIONS),)
        assert db.execute("PRAGMA journal_mode").fetchone() == ("wal",)
        db.execute(f"PRAGMA user_version = {len(MIGRATIONS) + 1}")
    db.close()
    with pytest.raises(StorageFailed, match="newer version"):
        await SqliteStore.open(path)


HOT = {
    "get": "SELECT record, version FROM sessions WHERE id = 's'",
    "events": "SELECT seq FROM events WHERE session_id = 's' AND seq > 5 ORDER BY seq LIMIT 9",
    "turn": "SELECT key FROM turns WHERE session_id = 's' AND epoch = 3",
    "transcript": "SELECT pieces FROM turns WHERE session_id = 's' ORDER BY epoch",
    "due": "SELECT n FROM sessions INDEXED BY sessions_due WHERE status = 'idle' AND deadline < 5"
    " ORDER BY deadline",
    "page": "SELECT record FROM sessions WHERE status = 'idle' AND n < 9 ORDER BY n DESC LIMIT 5",
}


@pytest.mark.parametrize("sql", list(HOT.values()), ids=list(HOT))
async def test_hot_queries_search_an_index(tmp_path, sql):
    path = tmp_path / "sessions.sqlite"
    await (await SqliteStore.open(path)).close()
    with sqlite3.connect(path) as db:
        plan = " ".join(row[3] for row in db.execute(f"EXPLAIN QUERY PLAN {sql}"))
    db.close()
    assert "SEARCH" in plan and "SCAN" not in plan and "TEMP B-TREE" not in plan


async def test_there_are_no_changes_by_others(tmp_path):
    store = await SqliteStore.open(tmp_path / "sessions.sqlite")
    await store.create(record(), [])
    assert [session_id async for session_id in store.changes()] == []
    await store.close()
