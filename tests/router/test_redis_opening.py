"""Opening the Redis store: URLs, secrets, versions, what the router warns of."""

from __future__ import annotations

import logging

import pytest
from redis.asyncio import Redis
from redis.exceptions import BusyLoadingError, MasterDownError, MovedError, ResponseError

from agentserve.core.config import RouterConfig
from agentserve.core.errors import InvalidRequest, StorageFailed
from agentserve.router.services import open_store
from agentserve.router.store import RedisStore, SqliteStore, redis_checks
from agentserve.router.store.redis_link import RedisLink

from .own_process import free_port
from .records import record
from .redis_server import DURABLE, RedisServer
from .rig import eventually

PASSWORD = "p/w#1@?:%"
QUOTED = "p%2Fw%231%40%3F%3A%25"


@pytest.mark.parametrize(
    ("url", "where"),
    [
        ("redis://host", "host:6379/0"),
        (f"redis://user:{QUOTED}@host:7000/3", "host:7000/3"),
        ("rediss://host/1?ssl_ca_certs=/ca.pem", "host:6379/1"),
        ("redis://[::1]:7000", "[::1]:7000/0"),
        (f"unix:///run/redis.sock?db=2&password={QUOTED}", "/run/redis.sock (2)"),
    ],
)
async def test_what_is_shown_of_a_url_has_no_secrets(url, where):
    link = RedisLink(url)
    assert link.where == where
    assert PASSWORD not in repr(link) + repr(link.client)
    assert QUOTED not in repr(RouterConfig(store=url))


@pytest.mark.parametrize(
    "url",
    [
        "http://host",
        "redis://",
        "redis:///0",
        "redis://:secret/part@host",
        "redis://:12/secret@host",
        "redis://:secret#part@host",
        "redis://user:12#secret@host",
        "redis://user:12?secret@host",
        "redis://host:secret",
        "redis://host/secret",
        "redis://host?socket_timeout=secret",
        "redis://host?ssl_ca_certs=secret",
        "unix://",
        "unix:///run/redis.sock?db=secret",
    ],
)
async def test_other_urls_are_refused_without_quoting_them(url):
    with pytest.raises(InvalidRequest) as refused:
        RedisLink(url)
    shown = refused.value.message + refused.value.hint
    assert "secret" not in shown and "redis://" in shown
    assert refused.value.__cause__ is None


def test_the_settings_take_redis_urls_only():
    with pytest.raises(InvalidRequest, match="not a Redis URL"):
        RouterConfig(store="sqlite:///secret")


async def test_the_settings_choose_the_store(redis_server, tmp_path):
    store = await open_store(RouterConfig(data=tmp_path))
    assert isinstance(store, SqliteStore)
    await store.close()
    store = await open_store(RouterConfig(data=tmp_path, store=redis_server.url))
    assert isinstance(store, RedisStore)
    await store.close()


async def test_a_socket_and_a_database_are_used(redis_server):
    store = await RedisStore.open(f"unix://{redis_server.socket}?db=3")
    await store.create(record(), [])
    await store.close()
    async with Redis.from_url(redis_server.url) as client:
        assert await client.dbsize() == 0
        assert (await client.info("keyspace"))["db3"]["keys"] > 0


async def test_all_keys_are_in_one_slot_of_a_cluster():
    # a port for the bus as well: by default 10,000 higher, which may be no port
    bus = ("--cluster-port", str(free_port()))
    with RedisServer(*DURABLE, "--cluster-enabled", "yes", *bus) as server:
        async with Redis.from_url(server.url, decode_responses=True) as client:
            await client.execute_command("CLUSTER", "ADDSLOTSRANGE", 0, 16383)
            await eventually(
                lambda: client.execute_command("CLUSTER", "INFO"),
                lambda info: "cluster_state:ok" in info,
            )
            store = await RedisStore.open(server.url)
            await store.create(record(), [])
            await store.update(await store.get("s_1"))
            await store.create(record("s_2"), [], await store.get("s_1"))
            await store.delete("s_1")
            records, _ = await store.page(status=None, before=None, limit=9)
            assert [one.session.id for one in records] == ["s_2"]
            assert len({await client.cluster("KEYSLOT", key) for key in await client.keys()}) == 1
            await client.execute_command("CLUSTER", "DELSLOTSRANGE", 0, 16383)
            with pytest.raises(StorageFailed, match="cluster"):
                await store.get("s_2")
            await store.close()


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (MovedError("7 10.0.0.2:6379"), "not the node"),
        (BusyLoadingError("Redis is loading the dataset in memory"), "still loading"),
        (MasterDownError("Link with MASTER is down"), "lost its primary"),
    ],
)
async def test_rare_refusals_say_what_to_do(error, words):
    with pytest.raises(StorageFailed, match=words) as failed:
        async with RedisLink("redis://host").reaching():
            raise error
    assert failed.value.hint


async def test_a_mistake_of_ours_is_not_taken_for_a_refusal():
    with pytest.raises(ResponseError):
        async with RedisLink("redis://host").reaching():
            raise ResponseError("wrong number of arguments")


async def test_nobody_there_is_an_error_soon(tmp_path):
    with pytest.raises(StorageFailed, match="cannot be reached"):
        await RedisStore.open(f"unix://{tmp_path}/none")


@pytest.mark.parametrize("schema", ["1", "3"])
async def test_another_schema_is_refused(redis_server, schema):
    async with Redis.from_url(redis_server.url) as client:
        await client.set("{agentserve}:schema", schema)
        with pytest.raises(StorageFailed, match=f"have schema {schema}") as refused:
            await RedisStore.open(redis_server.url)
        assert "another database" in refused.value.hint
        await client.delete("{agentserve}:schema")
    for _ in range(2):
        await (await RedisStore.open(redis_server.url)).close()


async def test_an_old_server_is_refused(redis_server, monkeypatch):
    monkeypatch.setattr(redis_checks, "OLDEST", (99, 1))
    with pytest.raises(StorageFailed, match="too old") as refused:
        await RedisStore.open(redis_server.url)
    assert "99.1" in refused.value.hint


async def _warnings(url: str, caplog: pytest.LogCaptureFixture) -> str:
    caplog.clear()
    with caplog.at_level(logging.WARNING):
        await (await RedisStore.open(url)).close()
    return caplog.text


async def test_what_may_be_lost_is_warned_of(redis_server, caplog):
    async with Redis.from_url(redis_server.url) as client:
        assert await _warnings(redis_server.url, caplog) == ""
        try:
            await client.config_set("appendfsync", "everysec")
            assert "set appendfsync always" in await _warnings(redis_server.url, caplog)
            await client.config_set("appendfsync", "always")
            await client.config_set("maxmemory-policy", "allkeys-lru")
            assert "set maxmemory-policy noeviction" in await _warnings(redis_server.url, caplog)
        finally:
            await client.config_set("appendfsync", "always")
            await client.config_set("maxmemory-policy", "noeviction")
    with RedisServer("--appendonly", "no") as server:
        assert "set appendonly yes" in await _warnings(server.url, caplog)


async def test_users_are_let_in_by_password_and_need_no_config(redis_server, caplog):
    url = redis_server.url.replace("//", f"//u:{QUOTED}@")
    async with Redis.from_url(redis_server.url) as client:
        await client.acl_setuser(
            "u", enabled=True, passwords=[f"+{PASSWORD}"], keys="*", channels="*",
            categories=["+@all"], commands=["-config"],
        )  # fmt: skip
        try:
            text = await _warnings(url, caplog)
            assert "could not be told" in text and PASSWORD not in text and QUOTED not in text
            await client.acl_setuser("u", enabled=True, commands=["-evalsha"])
            store = await RedisStore.open(url)
            with pytest.raises(StorageFailed, match="does not let the router do this"):
                await store.create(record(), [])
            await store.close()
            wrong = url.replace(QUOTED, "other-secret")
            with pytest.raises(StorageFailed, match="does not let the router in") as refused:
                await RedisStore.open(wrong)
            assert "other-secret" not in f"{refused.value} {refused.value.__cause__}"
        finally:
            await client.acl_deluser("u")
