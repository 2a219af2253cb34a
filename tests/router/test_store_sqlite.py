"""What only the SQLite store has: a file, migrations, query plans."""

from __future__ import annotations

import asyncio
import sqlite3

import pytest

from agentserve.core.errors import StorageFailed
from agentserve.core.tenants import Role, new_key
from agentserve.router.store import SqliteStore
from agentserve.router.store.connection import Connection
from agentserve.router.store.ledger import BlobName
from agentserve.router.store.migrations import MIGRATIONS
from agentserve.vision.layouts import LayoutLearner

from .records import STARTED, record, turn


async def test_a_store_of_the_first_schema_is_brought_up_to_date(tmp_path):
    path = tmp_path / "sessions.sqlite"
    async with await Connection.open(path) as db:
        await db.transaction(MIGRATIONS[0])
        await db.execute(
            "INSERT INTO sessions (id, version, status, deadline, worker_id, boot_id, last_seq,"
            " record) VALUES ('s_1', 0, 'idle', 5, 'w-1', 'b', 0, ?)",
            (record().model_dump_json(),),
        )
        await db.execute("PRAGMA user_version = 1")
    opened = await SqliteStore.open(path)
    assert (await opened.get("s_1")).session.cell is None
    await opened.put_layouts("a" * 64, LayoutLearner())
    assert await opened.held("s_1") is None
    assert await opened.drains() == {}
    assert await opened.pin_loads() == {"w-1": (1, 0)}
    assert [one.tenant for one in await opened.due(6, 9)] == [""]
    assert await opened.closed(6, 9) == await opened.keys() == await opened.added_workers() == []
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


async def test_two_processes_may_migrate_at_once(tmp_path):
    path = tmp_path / "sessions.sqlite"
    stores = await asyncio.gather(*(SqliteStore.open(path) for _ in range(4)))
    for store in stores:
        await store.close()


async def test_a_busy_event_loop_keeps_no_other_process_from_writing(tmp_path):
    """What is written at once must not wait, with the file's lock, for the loop to come back."""
    path = tmp_path / "sessions.sqlite"
    store = await SqliteStore.open(path)
    await store.create(record(), [STARTED])
    _, key = new_key("one", Role.USER)
    for work in (
        store.put_key(key),
        store.ledger.claim("", {"a" * 64: 5}, 0),
        store.ledger.leave(-1, -1, 10),
        store.ledger.drop([BlobName("", "a" * 64)]),
        store.update(record()),
        store.delete("s_1"),
    ):
        task = asyncio.create_task(work)
        await asyncio.sleep(0)  # it has asked its thread for the first step
        with sqlite3.connect(path, timeout=10, isolation_level=None) as db:
            db.execute("BEGIN IMMEDIATE")
            db.execute("ROLLBACK")
        db.close()
        await task
    await store.close()


HOT = {
    "get": "SELECT record, version FROM sessions WHERE id = 's'",
    "events": "SELECT seq FROM events WHERE session_id = 's' AND seq > 5 ORDER BY seq LIMIT 9",
    "turn": "SELECT key FROM turns WHERE session_id = 's' AND epoch = 3",
    "transcript": "SELECT pieces FROM turns WHERE session_id = 's' ORDER BY epoch",
    "due": "SELECT n FROM sessions INDEXED BY sessions_due"
    " WHERE status IN ('idle', 'paused') AND deadline < 5 ORDER BY deadline",
    "closed": "SELECT n FROM sessions INDEXED BY sessions_closed"
    " WHERE status IN ('released', 'expired') AND deadline < 5 ORDER BY deadline",
    "of a tenant": "SELECT record FROM sessions WHERE n < 9 AND tenant = 't'"
    " ORDER BY n DESC LIMIT 5",
    "of a tenant by status": "SELECT record FROM sessions WHERE n < 9 AND status = 'idle'"
    " AND tenant = 't' ORDER BY n DESC LIMIT 5",
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


async def test_what_is_acknowledged_is_synced_and_what_comes_before_need_not_be(tmp_path):
    store = await SqliteStore.open(tmp_path / "sessions.sqlite")
    asked: list[str] = []
    try:
        await store._writer.run(lambda db: db.set_trace_callback(asked.append))
        await store.create(record(), [])
        begun = await store.update(record(), [STARTED], synced=False)
        await store.update(begun, [STARTED], turn(0))
    finally:
        await store.close()
    pragmas = [words for words in asked if "synchronous" in words]
    assert [words.rpartition(" ")[2].rstrip(";") for words in pragmas] == ["FULL", "NORMAL", "FULL"]
