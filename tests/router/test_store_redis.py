"""What only the Redis store has: several routers, lost connections, servers that refuse."""

from __future__ import annotations

import asyncio
from contextlib import aclosing, asynccontextmanager

import pytest
from redis.asyncio import Redis

from agentserve.core.errors import StorageFailed
from agentserve.core.sessions import SessionStatus
from agentserve.router.store import PassPin, RedisStore, VersionConflict, redis_changes, redis_link
from agentserve.testing.worker import FakeWorker

from .records import STARTED, record, turn
from .redis_server import RedisServer
from .rig import eventually, new_session, picture, running_rig


@asynccontextmanager
async def opened(url: str):
    store = await RedisStore.open(url)
    try:
        yield store
    finally:
        await store.close()


@pytest.fixture
async def redis_store(redis_server):
    async with opened(redis_server.url) as store:
        yield store


@pytest.fixture
async def admin(redis_server):
    async with Redis.from_url(redis_server.url, decode_responses=True) as client:
        yield client


@pytest.fixture
def own_server():
    with RedisServer() as server:
        yield server


# several routers


async def test_each_version_is_won_by_one_writer(redis_store, redis_server):
    async with opened(redis_server.url) as other:
        await redis_store.create(record(), [])
        won: list[int] = []

        async def change(store: RedisStore, times: int) -> None:
            while times:
                read = await store.get("s_1")
                try:
                    await store.update(read.with_session(turns=read.session.turns + 1), [STARTED])
                except VersionConflict:
                    continue
                won.append(read.version)
                times -= 1

        await asyncio.gather(*(change(store, 20) for store in [redis_store, other] * 5))
        assert sorted(won) == list(range(200))
        last = await other.get("s_1")
        assert (last.version, last.session.turns) == (200, 200)
        events = await other.events("s_1", 0, 999)
        assert [event.seq for event in events] == list(range(1, 201))


async def _subscribed(admin: Redis, number: int) -> None:
    await eventually(
        lambda: admin.pubsub_numsub("{agentserve}:changes"), lambda found: found[0][1] == number
    )


async def test_changes_tell_what_others_did(redis_store, redis_server, admin):
    async with opened(redis_server.url) as other, aclosing(redis_store.changes()) as changes:
        heard = asyncio.create_task(anext(changes))
        await _subscribed(admin, 1)
        await redis_store.create(record("s_own"), [])
        await other.create(record("s_created"), [])
        assert await heard == "s_created"
        await redis_store.update(await redis_store.get("s_own"))
        await other.update(await other.get("s_own"))
        assert await anext(changes) == "s_own"
        await other.delete("s_created")
        assert await anext(changes) == "s_created"


async def test_changes_go_on_after_a_lost_connection(
    redis_store, redis_server, admin, monkeypatch, caplog
):
    monkeypatch.setattr(redis_changes, "QUIET_S", 0.05)  # quiet stretches are no failure
    async with opened(redis_server.url) as other, aclosing(redis_store.changes()) as changes:
        heard = asyncio.create_task(anext(changes))
        await _subscribed(admin, 1)
        await asyncio.sleep(0.3)
        assert caplog.text == ""
        await admin.client_kill_filter(_type="pubsub")
        await _subscribed(admin, 1)
        await other.create(record(), [])
        assert await heard == "s_1"


async def test_changes_go_on_after_a_server_was_silent(own_server, monkeypatch, caplog):
    monkeypatch.setattr(redis_changes, "QUIET_S", 0.1)
    async with (
        opened(own_server.url) as store,
        opened(own_server.url) as other,
        Redis.from_url(own_server.url, decode_responses=True) as admin,
        aclosing(store.changes()) as changes,
    ):
        heard = asyncio.create_task(anext(changes))
        await _subscribed(admin, 1)
        own_server.freeze()
        try:
            await eventually(lambda: asyncio.sleep(0, caplog.text))
        finally:
            own_server.thaw()
        assert "no answer to a ping" in caplog.text
        await other.create(record(), [])

        async def changed() -> bool:  # as long as the lost subscription is the only one
            await other.update(await other.get("s_1"))
            return heard.done()

        await eventually(changed)
        assert await heard == "s_1"


# connections that fail


async def test_a_restarted_server_has_what_was_acknowledged(own_server, caplog):
    async with opened(own_server.url) as store, aclosing(store.changes()) as changes:
        heard = asyncio.create_task(anext(changes))
        await store.create(record(), [STARTED])
        written = await store.update(await store.get("s_1"), [STARTED], turn(0, 1, 2))
        async with Redis.from_url(own_server.url) as admin:
            await _subscribed(admin, 1)
        own_server.kill()
        with pytest.raises(StorageFailed, match="cannot be reached") as failed:
            await store.get("s_1")
        assert failed.value.retry_after and "start it" in failed.value.hint
        own_server.start()
        assert await store.get("s_1") == written
        assert [event.seq for event in await store.events("s_1", 0, 9)] == [1, 2]
        assert (await store.turn("s_1", 0)).key == "key0"
        await store.update(written)
        async with opened(own_server.url) as other, Redis.from_url(own_server.url) as admin:
            await _subscribed(admin, 1)
            await other.create(record("s_2"), [])
            assert await heard == "s_2"
    assert "changes by other routers are not heard" in caplog.text


async def test_a_server_that_hangs_is_not_waited_for(own_server, monkeypatch):
    async with opened(own_server.url) as store:
        await store.create(record(), [])
        monkeypatch.setattr(redis_link, "CALL_TIMEOUT_S", 0.3)
        own_server.freeze()
        try:
            # less than redis-py alone waits for one answer
            async with asyncio.timeout(redis_link.ATTEMPT_TIMEOUT_S - 0.5):
                with pytest.raises(StorageFailed, match="does not answer in time"):
                    await store.get("s_1")
        finally:
            own_server.thaw()
        monkeypatch.undo()
        assert (await store.get("s_1")).version == 0


class Muffled:
    """A way to Redis that swallows the next ``mute`` answers, each with its connection."""

    def __init__(self, server: RedisServer) -> None:
        self._server = server
        self.mute = 0

    @asynccontextmanager
    async def listening(self):
        server = await asyncio.start_unix_server(self._pass, self._server.folder / "muffled")
        async with server:
            yield f"unix://{self._server.folder}/muffled"

    async def _pass(self, reader, writer) -> None:
        there, back = await asyncio.open_unix_connection(self._server.socket)
        try:
            while request := await reader.read(65536):
                back.write(request)
                answer = await there.read(65536)
                if self.mute:
                    self.mute -= 1
                    return
                writer.write(answer)
        finally:
            back.close()
            writer.close()


async def test_a_write_whose_answer_was_lost_counts_once(redis_server):
    way = Muffled(redis_server)
    async with way.listening() as url, opened(url) as store:
        # the server knows both scripts from here on: the lost answers are those of the writes
        await store.create(record("s_0"), [])
        await store.update(record("s_0"))
        way.mute = 1
        await store.create(record("s_1"), [STARTED])
        assert way.mute == 0
        way.mute = 1
        written = await store.update(record("s_1"), [STARTED], turn(0, 1))
        assert way.mute == 0
        assert await store.get("s_1") == written
        assert written.version == 1
        assert [event.seq for event in await store.events("s_1", 0, 9)] == [1, 2]
        assert await store.pin_loads() == {"w-1": (2, 0)}


async def test_a_cancelled_call_leaves_no_answer_for_the_next(redis_store):
    await redis_store.create(record("s_1"), [])
    await redis_store.create(record("s_2", worker="w-2"), [])
    for pause in range(20):
        task = asyncio.create_task(redis_store.get("s_1"))
        for _ in range(pause):
            await asyncio.sleep(0)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        assert (await redis_store.get("s_2")).session.id == "s_2"


async def test_a_server_that_forgot_the_scripts_is_told_again(redis_store, admin):
    await redis_store.create(record(), [])
    await admin.script_flush()
    assert (await redis_store.update(await redis_store.get("s_1"))).version == 1


# servers that refuse


async def test_a_replica_is_refused(redis_store, redis_server, admin):
    await redis_store.create(record(), [])
    await admin.replicaof("127.0.0.1", "1")
    try:
        with pytest.raises(StorageFailed, match="is a replica") as failed:
            await redis_store.update(await redis_store.get("s_1"))
        assert "primary" in failed.value.hint
    finally:
        await admin.replicaof("NO", "ONE")
    await redis_store.update(await redis_store.get("s_1"))


async def test_with_the_memory_used_up_sessions_can_still_be_deleted(redis_store, admin):
    await redis_store.create(record(), [STARTED])
    await admin.config_set("maxmemory", 1)
    try:
        for write in (
            redis_store.create(record("s_2"), []),
            redis_store.update(await redis_store.get("s_1"), [STARTED]),
            redis_store.put_pass_pin(PassPin("name", record().session.pin, 1.0), None),
        ):
            with pytest.raises(StorageFailed, match="memory") as failed:
                await write
            assert "maxmemory" in failed.value.hint
        await redis_store.beat("r", 60)
        assert await redis_store.alive() == {"r"}
        await redis_store.delete("s_1")
    finally:
        await admin.config_set("maxmemory", 0)
    assert await redis_store.counts() == {}
    assert await admin.keys("*:s_*") == []


async def test_a_server_that_cannot_save_is_told_of(own_server):
    async with (
        opened(own_server.url) as store,
        Redis.from_url(own_server.url, decode_responses=True) as admin,
    ):
        (own_server.folder / "dump.rdb").mkdir()  # a snapshot cannot take its place
        await admin.config_set("save", "3600 100000")
        await admin.bgsave()
        await eventually(
            lambda: admin.info("persistence"), lambda info: info["rdb_last_bgsave_status"] == "err"
        )
        with pytest.raises(StorageFailed, match="MISCONF") as failed:
            await store.create(record(), [])
        assert "disk" in failed.value.hint


async def test_missing_replicas_are_told_of(redis_store, admin):
    await admin.config_set("min-replicas-to-write", 1)
    try:
        with pytest.raises(StorageFailed, match="NOREPLICAS"):
            await redis_store.create(record(), [])
    finally:
        await admin.config_set("min-replicas-to-write", 0)
    await redis_store.create(record(), [])


# many sessions


async def test_a_list_reads_no_more_than_it_returns(redis_store, admin):
    """With 10,000 sessions, by the commands that the scripts ran."""
    sessions = 10_000
    for start in range(0, sessions, 500):
        await asyncio.gather(
            *(
                redis_store.create(record(f"s_{number}", age_s=61), [])
                for number in range(start, start + 500)
            )
        )

    async def commands(call) -> dict[str, int]:
        await admin.config_resetstat()
        await call
        stats = await admin.info("commandstats")
        ours = {name.removeprefix("cmdstat_"): value["calls"] for name, value in stats.items()}
        return {n: calls for n, calls in ours.items() if n not in ("config|resetstat", "info")}

    page = redis_store.page
    some = {"evalsha": 1, "zrange": 1, "hmget": 50}
    await page(status=None, before=None, limit=1)
    await redis_store.due(0, 1)
    await redis_store.pinned("w-0", 1, but="b")  # the server knows the scripts from here on
    assert await commands(page(status=None, before=None, limit=50)) == some
    assert await commands(page(status=None, before=5_000, limit=50)) == some
    assert await commands(page(status=SessionStatus.IDLE, before=5_000, limit=50)) == some
    assert await commands(redis_store.due(2e9 * 2, 50)) == some
    assert await commands(redis_store.pinned("w-1", 50, but="c")) == some | {"zrange": 2}
    assert await commands(redis_store.pin_loads()) == {
        "multi": 1, "zrange": 1, "hgetall": 1, "exec": 1,
    }  # fmt: skip
    assert await redis_store.pin_loads() == {"w-1": (sessions, 0)}
    assert await commands(redis_store.counts()) == {"multi": 1, "exec": 1, "zcard": 5}
    assert await redis_store.counts() == {"idle": sessions}
    one = await redis_store.get("s_77")
    assert sum((await commands(redis_store.update(one, [STARTED], turn(0, 1)))).values()) < 25
    assert sum((await commands(redis_store.delete("s_78"))).values()) < 25


# a whole router


async def test_a_router_restart_forgets_nothing(redis_server, tmp_path):
    async with FakeWorker() as one, FakeWorker() as two:
        async with running_rig(tmp_path, [one, two], store=redis_server.url) as rig:
            session = await rig.client.create_session(new_session())
            first = await rig.client.turn(session.id, picture(), epoch=0)
            before = await rig.client.session(session.id)
            events = await rig.events(session.id)
        assert not (tmp_path / "sessions.sqlite").exists()
        async with running_rig(tmp_path, [one, two], store=redis_server.url) as rig:
            assert await rig.client.session(session.id) == before
            assert await rig.events(session.id) == events
            again = await rig.client.turn(session.id, picture(), epoch=0)
            assert again == first.model_copy(update={"replayed": True})


async def test_routers_are_alive_until_their_beat_is_over(redis_store):
    assert await redis_store.alive() == set()
    await redis_store.beat("r-1", 60)
    await redis_store.beat("r-2", 0.05)
    await redis_store.beat("r-3", 0.05)
    await asyncio.sleep(0.1)
    await redis_store.beat("r-3", 60)
    assert await redis_store.alive() == {"r-1", "r-3"}


async def test_all_agree_with_the_first(redis_server, redis_store):
    assert await redis_store.agree("blobs", "one") == "one"
    other = await RedisStore.open(redis_server.url)
    try:
        assert await other.agree("blobs", "two") == "one"
    finally:
        await other.close()
    assert await redis_store.agree("blobs", "one") == "one"
