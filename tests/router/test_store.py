"""Every store against the protocol's promises."""

from __future__ import annotations

import asyncio
import time

import pytest

from agentserve.core.events import EventType
from agentserve.core.plans import Box, TextPiece, VisualItem
from agentserve.core.sessions import Pin, SessionStatus
from agentserve.router.store import (
    EventDraft,
    HeldRecord,
    PassPin,
    VersionConflict,
)
from agentserve.vision.layouts import LayoutLearner

from .records import STARTED, record, turn


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
