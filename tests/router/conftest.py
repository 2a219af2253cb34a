from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from redis import Redis

from agentserve.router.store import RedisStore, SqliteStore, Store
from agentserve.testing.worker import FakeWorker

from .redis_server import RedisServer
from .rig import Rig, running_rig


@pytest.fixture(scope="session")
async def rig(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Rig]:
    """One router with two workers, shared by the tests that break nothing."""
    async with running_rig(tmp_path_factory.mktemp("router")) as running:
        yield running


@pytest.fixture(scope="session")
async def small_context(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Rig]:
    """A router with one worker whose context is short."""
    async with (
        FakeWorker(context_length=4096) as worker,
        running_rig(tmp_path_factory.mktemp("small"), [worker]) as running,
    ):
        yield running


@pytest.fixture(scope="session")
def shared_redis() -> Iterator[RedisServer]:
    with RedisServer() as server:
        yield server


@pytest.fixture
def redis_server(shared_redis: RedisServer) -> Iterator[RedisServer]:
    """A running redis-server without keys; settings that a test changes must be put back by it."""
    with Redis.from_url(shared_redis.url) as client:
        client.flushall()
    yield shared_redis


@pytest.fixture(params=["sqlite", "sqlite without memory", "redis"])
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Store]:
    """Each store there is, empty."""
    path = tmp_path / "deep" / "sessions.sqlite"
    if request.param == "sqlite":
        opened: Store = await SqliteStore.open(path)
    elif request.param == "sqlite without memory":
        opened = await SqliteStore.open(path, recent=0)
    else:
        opened = await RedisStore.open(request.getfixturevalue("redis_server").url)
    yield opened
    await opened.close()
