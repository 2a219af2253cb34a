"""Every store against the protocol's promises."""

from __future__ import annotations

import asyncio
import time
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from agentserve.core.events import EventType
from agentserve.core.plans import Seal, TextPiece, VisualItem
from agentserve.core.screens import Size
from agentserve.core.sessions import Pin, SessionStatus
from agentserve.core.tenants import KeyLimits, Role, new_key
from agentserve.router.store import (
    EventDraft,
    HeldRecord,
    PassPin,
    RunningTurn,
    VersionConflict,
)
from agentserve.vision.layouts import LayoutLearner

from .records import STARTED, record, turn


async def test_a_record_comes_back_as_it_was(store):
    written = record()
    await store.create(written, [STARTED])
    assert await store.get("s_1") == written
    assert await store.get("s_2") is None


ODD = '\0 "quoted" \\ \u20ac \U0001f600 \u2028 {agentserve}'


async def test_nothing_is_lost_on_the_way(store):
    written = record().with_session(metadata={"odd": ODD, "": ""}, timeout_s=0.1 + 0.2, task=ODD)
    written = written.model_copy(update={"running": RunningTurn(router="r-1", key=ODD)})
    pieces = [
        TextPiece(ids=[1, 2**53 + 1], text=ODD, seal=Seal(history="a" * 64)),
        VisualItem(blob="b" * 64, size=Size(width=28, height=28), tokens=1, turn=0),
    ]
    held = HeldRecord(pieces=[TextPiece(ids=[], text=ODD)], shown="a" * 64, since=3)
    answer = replace(turn(0, held=held), pieces=pieces, key=ODD)
    data = {"list": [], "dict": {}, "none": None, "float": 1e22, "int": 2**60, "odd": ODD}
    await store.create(written, [EventDraft(EventType.SESSION_CREATED, data)])
    changed = await store.update(written, [EventDraft(EventType.TURN_COMPLETED, data)], answer)
    assert await store.get("s_1") == changed == written.model_copy(update={"version": 1})
    assert [event.data for event in await store.events("s_1", 0, 9)] == [data, data]
    assert await store.turn("s_1", 0) == replace(answer, held=None)
    assert await store.transcript("s_1") == pieces
    assert await store.held("s_1") == held


async def test_an_id_is_taken_once(store):
    await store.create(record(), [STARTED])
    with pytest.raises(VersionConflict):
        await store.create(record(worker="w-2"), [STARTED])
    assert await store.pin_loads() == {"w-1": (1, 0)}
    assert len(await store.events("s_1", 0, 9)) == 1


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


async def test_a_fork_begins_with_its_parents_turns(store):
    parent = record("s_1")
    await store.create(parent, [])
    parent = await store.update(parent, turn=turn(0, 1, held=HeldRecord(since=7)))
    await store.create(record("s_2"), [STARTED], parent)
    assert await store.transcript("s_2") == [TextPiece(ids=[1])]
    assert [result.session_id for result in await store.turns("s_2", 0, 9)] == ["s_2"]
    assert (await store.turn("s_2", 0)).result.session_id == "s_2"
    assert [event.seq for event in await store.events("s_2", 0, 9)] == [1]
    for session_id in ("s_1", "s_2"):
        assert await store.held(session_id) == HeldRecord(since=7, forked=True)
    # each goes on by itself
    await store.update(parent, turn=turn(1, 2, held=HeldRecord(since=8)))
    assert await store.held("s_1") == HeldRecord(since=8)
    assert await store.held("s_2") == HeldRecord(since=7, forked=True)
    assert await store.transcript("s_2") == [TextPiece(ids=[1])]
    with pytest.raises(VersionConflict):
        await store.create(record("s_3"), [], parent)
    assert await store.get("s_3") is None
    assert await store.transcript("s_3") == []


async def test_a_deleted_session_leaves_nothing(store):
    await store.create(record(), [STARTED])
    await store.update(await store.get("s_1"), [STARTED], turn(0, 1, held=HeldRecord()))
    await store.delete("s_1")
    await store.delete("s_1")
    assert await store.get("s_1") is None
    assert await store.held("s_1") is None
    assert await store.turns("s_1", 0, 9) == await store.transcript("s_1") == []
    assert await store.events("s_1", 0, 9) == []
    assert await store.page(status=None, before=None, limit=9) == ([], None)
    assert await store.due(time.time() + 4000, 9) == []
    assert await store.counts() == await store.pin_loads() == {}


async def test_pages_go_from_the_newest_to_the_oldest(store):
    for number in range(5):
        await store.create(record(f"s_{number}"), [])
    await store.update((await store.get("s_3")).with_session(status=SessionStatus.RUNNING))

    async def pages(status, limit):
        before, found = None, []
        while True:
            records, before = await store.page(status=status, before=before, limit=limit)
            found.append([one.session.id for one in records])
            if before is None:
                return found

    assert await pages(None, 2) == [["s_4", "s_3"], ["s_2", "s_1"], ["s_0"]]
    assert await pages(SessionStatus.IDLE, 2) == [["s_4", "s_2"], ["s_1", "s_0"]]
    assert await pages(SessionStatus.RUNNING, 2) == [["s_3"]]
    assert await pages(SessionStatus.EXPIRED, 2) == [[]]


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
    assert await store.pin_loads() == {"w-1": (1, 0), "w-2": (1, 0)}
    assert await store.counts() == {"idle": 2, "released": 1}
    await store.create(record("s_now", worker="w-1", boot="b2"), [])
    before = await store.pinned("w-1", 10, but="b2")
    assert [one.session.id for one in before] == ["s_1"]


def pass_pin(worker: str, generation: int = 1, used_at: float = 100.0) -> PassPin:
    return PassPin("name", Pin(worker_id=worker, boot_id="b", generation=generation), used_at)


async def test_pass_pins_are_replaced_and_forgotten(store):
    first, second = pass_pin("w-1"), pass_pin("w-2", 2, 200.0)
    assert await store.put_pass_pin(first, None) == await store.pass_pin("name") == first
    assert await store.put_pass_pin(second, first.pin) == await store.pass_pin("name") == second
    assert await store.drop_pass_pins(150.0) == 0
    assert await store.drop_pass_pins(250.0) == 1
    assert await store.pass_pin("name") is None


async def test_a_name_is_pinned_by_the_first_who_does(store):
    tried = [pass_pin(f"w-{number}") for number in range(8)]
    answers = await asyncio.gather(*(store.put_pass_pin(pin, None) for pin in tried))
    (won,) = set(answers)
    assert won in tried and await store.pass_pin("name") == won
    # the same of those who all found its worker dead
    moves = [pass_pin(f"w-{number}", 2) for number in range(10, 18)]
    answers = await asyncio.gather(*(store.put_pass_pin(pin, won.pin) for pin in moves))
    (moved,) = set(answers)
    assert moved in moves and await store.pass_pin("name") == moved
    # and of who knows the first one only
    late = pass_pin("w-20", 2)
    assert await store.put_pass_pin(late, won.pin) == moved
    assert await store.put_pass_pin(late, None) == moved


async def test_a_later_use_of_a_pass_pin_is_noted(store):
    pin = pass_pin("w")
    await store.put_pass_pin(pin, None)
    used = pass_pin("w", used_at=200.0)
    assert await store.put_pass_pin(used, pin.pin) == used
    assert (await store.pass_pin("name")).used_at == 200
    assert await store.drop_pass_pins(150.0) == 0
    # one that was forgotten meanwhile comes back: nobody else has pinned it
    assert await store.drop_pass_pins(250.0) == 1
    moved = pass_pin("w-2", 2, 300.0)
    assert await store.put_pass_pin(moved, pin.pin) == await store.pass_pin("name") == moved


async def test_layouts_are_kept_by_surface(store):
    assert await store.layouts("a" * 64) is None
    once = LayoutLearner().observe("s_1", [["b" * 64]])
    twice = once.observe("s_2", [["b" * 64], ["c" * 64]])
    await store.put_layouts("a" * 64, once)
    await store.put_layouts("a" * 64, twice)
    assert await store.layouts("a" * 64) == twice
    assert await store.layouts("d" * 64) is None


async def test_earlier_lives_of_a_worker_are_told_apart(store):
    for boot in ("b", "b1", "b2", "b21", "c"):
        await store.create(record(f"s_{boot}", worker="w-1", boot=boot), [])
    await store.create(record("s_other", worker="w-10", boot="b"), [])

    async def before(limit):
        records = await store.pinned("w-1", limit, but="b2")
        return {one.session.id for one in records}

    assert await before(9) == {"s_b", "s_b1", "s_b21", "s_c"}
    assert len(await store.pinned("w-1", 9)) == 5
    assert len(await before(3)) == 3


async def test_a_moved_pin_is_counted_where_it_is(store):
    await store.create(record(), [])
    pin = Pin(worker_id="w-2", boot_id="b", generation=2, held_tokens=300)
    await store.update((await store.get("s_1")).with_session(pin=pin))
    await store.create(record("s_2", worker="w-2"), [])
    assert await store.pin_loads() == {"w-2": (2, 300)}
    more = pin.model_copy(update={"held_tokens": 450})
    await store.update((await store.get("s_1")).with_session(pin=more))
    assert await store.pin_loads() == {"w-2": (2, 450)}
    await store.delete("s_2")
    assert await store.pin_loads() == {"w-2": (1, 450)}
    assert await store.pinned("w-1", 9) == []
    await store.update((await store.get("s_1")).with_session(pin=None))
    assert await store.pin_loads() == {}


async def test_drains_are_known_until_they_are_dropped(store):
    assert await store.drains() == {}
    await store.put_drain("w-1", "r-1")
    await store.put_drain("w-2", "r-1")
    await store.put_drain("w-1", "r-2")
    await store.drop_drain("w-2")
    assert await store.drains() == {"w-1": "r-2"}
    await store.drop_drain("w-2")


async def test_tenants_are_listed_apart(store):
    for number in range(6):
        of = record(f"s_{number}").model_copy(update={"tenant": "one" if number % 2 else "other"})
        await store.create(of, [])
    idle = await store.get("s_1")
    await store.update(idle.with_session(status=SessionStatus.RELEASED))
    await store.delete("s_3")

    async def ids(status: SessionStatus | None, tenant: str | None) -> list[str]:
        found, _ = await store.page(status=status, before=None, limit=9, tenant=tenant)
        return [one.session.id for one in found]

    assert await ids(None, "one") == ["s_5", "s_1"]
    assert await ids(SessionStatus.IDLE, "one") == ["s_5"]
    assert await ids(SessionStatus.RELEASED, "one") == ["s_1"]
    assert await ids(None, "other") == ["s_4", "s_2", "s_0"]
    assert await ids(None, "") == await ids(SessionStatus.IDLE, "nobody") == []
    assert len(await ids(None, None)) == 5
    first, cursor = await store.page(status=None, before=None, limit=2, tenant="other")
    rest, end = await store.page(status=None, before=cursor, limit=2, tenant="other")
    assert [one.session.id for one in (*first, *rest)] == ["s_4", "s_2", "s_0"]
    assert end is None


async def test_keys_are_kept_and_forgotten(store):
    _, key = new_key("one", Role.ADMIN, name=ODD, limits=KeyLimits(running=3))
    _, other = new_key("other")
    assert await store.key(key.id) is None
    await store.put_key(key)
    await store.put_key(other)
    assert await store.key(key.id) == key
    assert await store.keys() == [key, other]
    changed = key.model_copy(update={"name": "new"})
    await store.put_key(changed)
    assert await store.keys() == [changed, other]
    assert await store.drop_key(key.id)
    assert not await store.drop_key(key.id)
    assert await store.keys() == [other]


async def test_closed_sessions_are_told_by_when_that_was(store):
    for number, status in enumerate(
        [SessionStatus.RELEASED, SessionStatus.EXPIRED, SessionStatus.IDLE, SessionStatus.PAUSED]
    ):
        await store.create(record(f"s_{number}", age_s=500), [])
        one = await store.get(f"s_{number}")
        closed = datetime.fromtimestamp(1000 - number, UTC) if number < 2 else None
        await store.update(one.with_session(status=status, closed_at=closed))

    async def before(seconds: float, limit: int = 9) -> list[str]:
        return [one.session.id for one in await store.closed(seconds, limit)]

    assert await before(999) == []
    assert await before(1000) == ["s_1"]
    assert await before(2000) == ["s_1", "s_0"]
    assert await before(2000, 1) == ["s_1"]
    # the paused one lives on though it was idle for long: its deadline is the whole session's
    assert [one.session.id for one in await store.due(time.time(), 9)] == ["s_2"]
    due = await store.due(time.time() + 3600, 9)
    assert {one.session.id for one in due} == {"s_2", "s_3"}
    await store.delete("s_1")
    assert await before(2000) == ["s_0"]


async def test_workers_are_added_once(store):
    assert await store.added_workers() == []
    for url in ("http://b:1", "http://a:1", "http://b:1"):
        await store.add_worker(url)
    assert await store.added_workers() == ["http://a:1", "http://b:1"]
    assert await store.remove_worker("http://b:1")
    assert not await store.remove_worker("http://b:1")
    assert await store.added_workers() == ["http://a:1"]


async def test_a_write_that_is_cancelled_at_any_moment_leaves_the_store_usable(store):
    await store.create(record(), [])
    for steps in range(30):
        current = await store.get("s_1")
        task = asyncio.create_task(store.update(current, [STARTED]))
        for _ in range(steps):
            await asyncio.sleep(0)
        if steps % 3:  # in a thread or a server, it has got further by then
            await asyncio.sleep(0.0005)
        task.cancel()
        await asyncio.wait({task})
        while True:
            try:
                await store.update(await store.get("s_1"), [STARTED])
                break
            except VersionConflict:  # the cancelled one was done, only now
                continue
    events = await store.events("s_1", 0, 100)
    assert [event.seq for event in events] == list(range(1, len(events) + 1))
    assert 30 <= len(events) == (await store.get("s_1")).version
