"""Pins of the pass-through that a router keeps, and what other routers do to them meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

from redis.asyncio import Redis

from agentserve.core.sessions import Pin
from agentserve.router.store import PassPin, RedisStore, pin_cache, redis_pins
from agentserve.router.store.pin_cache import PinCache
from agentserve.router.workers.registry import worker_id
from agentserve.testing.worker import FakeWorker

from .redis_server import RedisServer
from .rig import eventually, running_rig


def pass_pin(worker: str, generation: int = 1, name: str = "name") -> PassPin:
    return PassPin(name, Pin(worker_id=worker, boot_id="b", generation=generation), 100.0)


FIRST, SECOND, THIRD = pass_pin("w-1"), pass_pin("w-2", 2), pass_pin("w-3", 3)


def test_what_was_changed_while_it_was_read_is_not_kept():
    cache = PinCache()
    asked = cache.mark("name")
    cache.changed("name")
    cache.keep(FIRST, asked)
    assert cache.get("name") is None
    cache.keep(SECOND, cache.mark("name"))
    assert cache.get("name") == SECOND
    asked = cache.mark("name")
    cache.clear()
    cache.keep(SECOND, asked)
    assert cache.get("name") is None


def test_those_that_are_not_asked_for_make_room(monkeypatch):
    monkeypatch.setattr(pin_cache, "KEPT", 3)
    cache = PinCache()
    for number in range(5):
        cache.keep(pass_pin("w", name=f"n{number}"), cache.mark(f"n{number}"))
        assert cache.get("n0")
    assert [number for number in range(5) if cache.get(f"n{number}")] == [0, 3, 4]


@asynccontextmanager
async def routers_of(url: str) -> AsyncIterator[tuple[RedisStore, RedisStore, Redis]]:
    """The stores of two routers, which hear of each other's pins."""
    async with AsyncExitStack() as stack:
        one, two = [await RedisStore.open(url) for _ in range(2)]
        for store in (one, two):
            stack.push_async_callback(store.close)
        admin = await stack.enter_async_context(Redis.from_url(url, decode_responses=True))
        for store in (one, two):
            await store.pass_pin("any")
            await eventually(lambda store=store: hears(store))
        yield one, two, admin


async def hears(store: RedisStore) -> bool:
    return store._pins._right_until > asyncio.get_running_loop().time()


async def reads(admin: Redis, store: RedisStore) -> int:
    """How often Redis is asked for the pin when the router asks for it once."""
    await admin.config_resetstat()
    await store.pass_pin("name")
    stats = await admin.info("commandstats")
    return stats.get("cmdstat_hget", {"calls": 0})["calls"]


async def test_a_pin_is_read_once(redis_server):
    async with routers_of(redis_server.url) as (one, two, admin):
        await one.put_pass_pin(FIRST, None)
        assert [await reads(admin, one) for _ in range(2)] == [0, 0], "who wrote it has it"
        assert [await reads(admin, two) for _ in range(3)] == [1, 0, 0]
        assert await two.pass_pin("name") == FIRST


async def test_what_another_router_replaces_or_drops_is_read_anew(redis_server):
    async with routers_of(redis_server.url) as (one, two, _):
        await one.put_pass_pin(FIRST, None)
        assert await two.pass_pin("name") == FIRST
        assert await two.put_pass_pin(SECOND, FIRST.pin) == SECOND
        await eventually(lambda: one.pass_pin("name"), lambda pin: pin == SECOND)
        await one.put_pass_pin(THIRD, SECOND.pin)
        await eventually(lambda: two.pass_pin("name"), lambda pin: pin == THIRD)
        assert await two.drop_pass_pins(200.0) == 1
        assert await two.pass_pin("name") is None
        await eventually(lambda: one.pass_pin("name"), lambda pin: pin is None)


async def test_nothing_is_kept_over_a_lost_connection(redis_server):
    """What happened in between was not heard."""
    async with routers_of(redis_server.url) as (one, _, admin):
        await one.put_pass_pin(FIRST, None)
        assert await reads(admin, one) == 0
        await admin.hset("{agentserve}:pass_pins", "name", SECOND.pin.model_dump_json())
        assert await one.pass_pin("name") == FIRST, "nobody has told"
        await admin.client_kill_filter(_type="pubsub")
        await eventually(lambda: one.pass_pin("name"), lambda pin: pin.pin == SECOND.pin)
        await eventually(lambda: hears(one))
        await eventually(lambda: reads(admin, one), lambda number: number == 0)


async def test_nothing_that_is_kept_counts_while_redis_does_not_answer(monkeypatch, caplog):
    monkeypatch.setattr(redis_pins, "PING_EVERY_S", 0.1)
    monkeypatch.setattr(redis_pins, "LEASE_S", 0.3)
    with RedisServer() as server:
        async with routers_of(server.url) as (one, _, admin):
            await one.put_pass_pin(FIRST, None)
            server.freeze()
            try:
                await eventually(lambda: hears(one), lambda heard: not heard)
                asking = asyncio.create_task(one.pass_pin("name"))
                await eventually(lambda: asyncio.sleep(0, "no answer to a ping" in caplog.text))
                assert not asking.done(), "it is Redis that is asked"
            finally:
                server.thaw()
            assert await asking == FIRST
            await eventually(lambda: hears(one))
            await eventually(lambda: reads(admin, one), lambda number: number == 0)


async def test_two_routers_that_pin_one_name_at_once_agree(tmp_path: Path, redis_server):
    async with AsyncExitStack() as stack:
        fakes = [await stack.enter_async_context(FakeWorker()) for _ in range(3)]
        shared = {"store": redis_server.url, "blobs": tmp_path / "blobs"}
        pair = [
            await stack.enter_async_context(running_rig(tmp_path / name, fakes, **shared))
            for name in ("one", "two")
        ]

        async def served(name: str) -> set[str]:
            headers = {"X-Session-Id": name}
            asked = [
                rig.http.post("/generate", json={"text": "t"}, headers=headers) for rig in pair * 2
            ]
            answers = await asyncio.gather(*asked)
            return {answer.headers["x-agentserve-worker"] for answer in answers}

        ids = [worker_id(fake.url) for fake in fakes]
        names = [f"name-{number}" for number in range(12)]
        # each has something running elsewhere, so that they would choose differently
        with pair[0].services.registry.busy(ids[0]), pair[1].services.registry.busy(ids[1]):
            chosen = await asyncio.gather(*map(served, names))
        assert [len(workers) for workers in chosen] == [1] * len(names)
        assert await asyncio.gather(*map(served, names)) == chosen
        # all of a dead worker's names move, each to one other
        dying = next(fake for fake, its in zip(fakes, ids, strict=True) if {its} == chosen[0])
        await dying.kill()
        moved = await asyncio.gather(*map(served, names))
        for before, after in zip(chosen, moved, strict=True):
            assert len(after) == 1
            assert after != chosen[0]
            assert after == before or before == chosen[0]
