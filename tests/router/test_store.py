"""The SQLite store against the protocol's promises."""

from __future__ import annotations

import sqlite3
import time
from datetime import UTC, datetime, timedelta

import pytest

from agentserve.core.errors import StorageFailed
from agentserve.core.events import EventType
from agentserve.core.plans import TextPiece
from agentserve.core.screens import Size, screen_space
from agentserve.core.sessions import Pin, Session, SessionStatus, TurnResult
from agentserve.router.store import (
    EventDraft,
    ModelBinding,
    PassPin,
    SessionRecord,
    SqliteStore,
    TurnRecord,
    VersionConflict,
)
from agentserve.router.store.migrations import MIGRATIONS
from agentserve.vision.layouts import LayoutLearner

RESULT = {
    "session_id": "s_1", "turn": 0, "epoch": 0, "text": "t", "usage": {}, "timings": {},
    "worker": {"id": "w", "boot_id": "b"}, "screenshot": "0" * 64,
}  # fmt: skip


@pytest.fixture
async def store(tmp_path):
    opened = await SqliteStore.open(tmp_path / "deep" / "sessions.sqlite")
    yield opened
    await opened.close()


def record(session_id: str = "s_1", *, worker: str = "w-1", boot: str = "b", age_s: float = 0):
    created = datetime.now(UTC) - timedelta(seconds=age_s)
    return SessionRecord(
        session=Session(
            id=session_id,
            status=SessionStatus.IDLE,
            program="p",
            task="t",
            model=None,
            policy="full",
            space=screen_space(Size(width=280, height=280), 1, 28),
            metadata={},
            created_at=created,
            expires_at=created + timedelta(hours=1),
            last_active_at=created,
            timeout_s=3600,
            inactivity_timeout_s=60,
            pin=Pin(worker_id=worker, boot_id=boot, generation=1),
        ),
        binding=ModelBinding(served_model_name="m", tokenizer_sha256="0" * 64, family="f"),
    )


def turn(epoch: int, *ids: int) -> TurnRecord:
    result = TurnResult.model_validate(RESULT | {"epoch": epoch, "turn": epoch})
    return TurnRecord(epoch, f"key{epoch}", result, [TextPiece(ids=list(ids))])


STARTED = EventDraft(EventType.TURN_STARTED, {"a": 1})


async def test_a_record_comes_back_as_it_was(store):
    written = record()
    await store.create(written, [STARTED])
    assert await store.get("s_1") == written
    assert await store.get("s_2") is None


async def test_updates_need_the_version_that_was_read(store):
    await store.create(record(), [])
    read = await store.get("s_1")
    newer = await store.update(read.with_session(epoch=1), [STARTED], turn(0, 1, 2))
    assert (newer.version, newer.session.epoch) == (1, 1)
    with pytest.raises(VersionConflict):
        await store.update(read.with_session(epoch=9), [STARTED], turn(1, 3))
    assert await store.get("s_1") == newer
    # nothing of the refused update is left
    assert len(await store.events("s_1", 0, 10)) == 1
    assert await store.transcript("s_1") == [TextPiece(ids=[1, 2])]
    await store.delete("s_1")
    with pytest.raises(VersionConflict):
        await store.update(newer)


async def test_event_numbers_have_no_gaps_over_updates(store):
    await store.create(record(), [STARTED, STARTED])
    read = await store.get("s_1")
    for _ in range(3):
        read = await store.update(read, [STARTED])
    events = await store.events("s_1", 1, 3)
    assert [event.seq for event in events] == [2, 3, 4]
    assert events[0].data == {"a": 1}


async def test_turns_are_found_by_epoch_and_paged(store):
    await store.create(record(), [])
    read = await store.get("s_1")
    for epoch in range(3):
        read = await store.update(read, turn=turn(epoch, epoch))
    assert (await store.turn("s_1", 1)).key == "key1"
    assert await store.turn("s_1", 3) is None
    assert [result.epoch for result in await store.turns("s_1", 1, 5)] == [1, 2]
    assert [piece.ids for piece in await store.transcript("s_1")] == [[0], [1], [2]]


async def test_due_are_idle_sessions_behind_their_deadline(store):
    await store.create(record("s_old", age_s=61), [])
    await store.create(record("s_new", age_s=10), [])
    busy = record("s_busy", age_s=61)
    await store.create(busy, [])
    await store.update(busy.with_session(status=SessionStatus.RUNNING))
    due = await store.due(time.time(), 10)
    assert [one.session.id for one in due] == ["s_old"]
    assert len(await store.due(time.time() + 4000, 10)) == 2
    assert len(await store.due(time.time() + 4000, 1)) == 1


async def test_pins_count_open_sessions_only(store):
    for number, worker in enumerate(["w-1", "w-1", "w-2"]):
        await store.create(record(f"s_{number}", worker=worker), [])
    closed = await store.get("s_0")
    await store.update(closed.with_session(status=SessionStatus.RELEASED))
    assert await store.pin_counts() == {"w-1": 1, "w-2": 1}
    assert await store.counts() == {"idle": 2, "released": 1}
    await store.create(record("s_now", worker="w-1", boot="b2"), [])
    before = await store.pinned_before("w-1", "b2", 10)
    assert [one.session.id for one in before] == ["s_1"]


async def test_pass_pins_are_replaced_and_forgotten(store):
    pin = Pin(worker_id="w", boot_id="b", generation=1)
    await store.put_pass_pin(PassPin("name", pin, 100.0))
    await store.put_pass_pin(PassPin("name", pin.model_copy(update={"generation": 2}), 200.0))
    assert (await store.pass_pin("name")).pin.generation == 2
    assert await store.drop_pass_pins(150.0) == 0
    assert await store.drop_pass_pins(250.0) == 1
    assert await store.pass_pin("name") is None


async def test_layouts_are_kept_by_surface(store):
    assert await store.layouts("a" * 64) is None
    once = LayoutLearner().observe("s_1", [["b" * 64]])
    twice = once.observe("s_2", [["b" * 64], ["c" * 64]])
    await store.put_layouts("a" * 64, once)
    await store.put_layouts("a" * 64, twice)
    assert await store.layouts("a" * 64) == twice
    assert await store.layouts("d" * 64) is None


async def test_a_store_of_the_first_schema_is_brought_up_to_date(tmp_path):
    path = tmp_path / "sessions.sqlite"
    opened = await SqliteStore.open(path)
    await opened.create(record(), [])
    await opened.close()
    with sqlite3.connect(path) as db:
        db.execute("DROP TABLE layouts")
        db.execute("DROP TABLE held")
        db.execute("PRAGMA user_version = 1")
    db.close()
    opened = await SqliteStore.open(path)
    assert (await opened.get("s_1")).session.cell is None
    await opened.put_layouts("a" * 64, LayoutLearner())
    assert await opened.held("s_1") is None
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
async def test_hot_queries_search_an_index(store, tmp_path, sql):
    with sqlite3.connect(tmp_path / "deep" / "sessions.sqlite") as db:
        plan = " ".join(row[3] for row in db.execute(f"EXPLAIN QUERY PLAN {sql}"))
    db.close()
    assert "SEARCH" in plan and "SCAN" not in plan and "TEMP B-TREE" not in plan
