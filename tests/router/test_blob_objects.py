"""Blobs in an object store: a real S3 server, the router's cache of it, and what goes wrong."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from agentserve.core.blobs import blob_path, sha256_of
from agentserve.core.config import MIB, RouterConfig
from agentserve.core.errors import InvalidRequest, StorageFailed, UnknownBlob
from agentserve.router.blobs import objects
from agentserve.router.blobs.cached import CachedBackend
from agentserve.router.blobs.objects import ObjectStore
from agentserve.router.metrics import Metrics
from agentserve.router.services import running_services
from agentserve.testing.host import scripted_host
from agentserve.testing.worker import FakeWorker

from .own_process import free_port
from .redis_server import RedisServer
from .rig import Rig, eventually, new_session, picture, running_rig
from .s3_server import BUCKET, SECRET, S3Server

DATA = b"some bytes" * 100
SHA = sha256_of(DATA)


@pytest.fixture(scope="session")
def shared_s3() -> Iterator[S3Server]:
    with S3Server() as server:
        yield server


@pytest.fixture
def s3(shared_s3: S3Server, monkeypatch: pytest.MonkeyPatch) -> S3Server:
    for name, value in shared_s3.environment.items():
        monkeypatch.setenv(name, value)
    return shared_s3


@pytest.fixture
def url(s3: S3Server, request: pytest.FixtureRequest) -> str:
    """A place in the bucket of this test's own."""
    return f"s3://{BUCKET}/{sha256_of(request.node.nodeid.encode())[:16]}"


@pytest.fixture
def opened(url: str, tmp_path: Path) -> Callable:
    """``await opened("name", limit=…)``: a router's backend, with a cache of its own."""

    async def made(name: str = "one", limit: int = MIB) -> CachedBackend:
        return await CachedBackend.open(tmp_path / name, ObjectStore(url), limit)

    return made


def object_of(url: str, tenant: str, sha256: str) -> str:
    return f"{url.removeprefix(f's3://{BUCKET}/')}/{blob_path(Path(), tenant, sha256)}"


def cached(backend: CachedBackend) -> set[str]:
    return {path.name for path in backend.folder.root.glob("*/??/*")}


async def test_a_blob_is_in_both_places_and_found_from_another_router(s3, url, opened):
    one, two = await opened("one"), await opened("two")
    assert one.id == two.id != ""
    await one.put("ann", SHA, DATA)
    assert s3.has(object_of(url, "ann", SHA))
    assert cached(one) == {SHA} and cached(two) == set()
    assert (await two.has("ann", SHA), await two.has("bob", SHA)) == (True, False)
    assert await two.read("bob", SHA) is None
    assert await two.read("ann", SHA) == DATA
    assert cached(two) == {SHA}
    await two.remove("ann", SHA)
    await two.remove("ann", SHA)
    assert not s3.has(object_of(url, "ann", SHA))
    assert cached(two) == set()
    assert not await two.has("ann", SHA)


async def test_an_upload_is_sent_on_before_it_is_there(s3, url, opened):
    backend = await opened()
    with backend.folder.new_file() as file:
        file.write(DATA)
        await backend.keep(file, "", SHA)
    assert s3.has(object_of(url, "", SHA)) and cached(backend) == {SHA}
    assert list((backend.folder.root / "incoming").iterdir()) == []


async def test_the_cache_is_bounded_and_loses_what_was_not_used(opened):
    blobs = [bytes([n]) * 1000 for n in range(6)]
    names = [sha256_of(data) for data in blobs]
    backend = await opened(limit=3000)
    for data, name in zip(blobs[:3], names[:3], strict=True):
        await backend.put("", name, data)
    await backend.read("", names[0])
    await backend.put("", names[3], blobs[3])
    assert cached(backend) == {names[0], names[2], names[3]}
    # what a running turn needs stays, also over the bound; it goes when nobody needs it
    async with backend.local("", names[:5]):
        assert cached(backend) == set(names[:4]), "the fifth is nowhere"
        await backend.put("", names[5], blobs[5])
        assert set(names[:4]) <= cached(backend)
    assert len(cached(backend)) == 3
    # a restart knows what is there
    again = await opened(limit=2000)
    assert len(cached(again)) == 2
    assert await again.read("", names[1]) == blobs[1]


async def test_turns_that_need_the_same_blob_fetch_it_once(opened, monkeypatch):
    one, two = await opened("one"), await opened("two")
    await one.put("", SHA, DATA)
    reads = []
    read = ObjectStore.read

    async def counted(self, tenant, sha256):
        reads.append(sha256)
        return await read(self, tenant, sha256)

    monkeypatch.setattr(ObjectStore, "read", counted)
    assert await asyncio.gather(*(two.read("", SHA) for _ in range(8))) == [DATA] * 8
    assert reads == [SHA]


async def test_a_damaged_object_is_not_served(s3, url, opened):
    one, two = await opened("one"), await opened("two")
    await one.put("", SHA, DATA)
    s3.bucket.put(object_of(url, "", SHA), DATA[:-1])
    with pytest.raises(StorageFailed, match="something else"):
        await two.read("", SHA)
    assert cached(two) == set()


async def test_the_cache_of_another_store_goes(opened, tmp_path):
    old, strange = tmp_path / "one" / ("0" * 32), tmp_path / "one" / "photos"
    for folder in (old, strange):
        (folder / "t" / "ab").mkdir(parents=True)
        (folder / "t" / "ab" / SHA).write_bytes(DATA)
    await opened("one")
    assert not old.exists() and strange.exists()


@pytest.mark.parametrize("name", [b"", b"..", b"../../x", b"a" * 31, b"\xff" * 32])
async def test_the_name_of_a_place_is_not_believed(s3, url, opened, tmp_path, name):
    s3.bucket.put(f"{url.removeprefix(f's3://{BUCKET}/')}/id", name)
    (tmp_path / "kept").mkdir()
    with pytest.raises(StorageFailed, match="not agentserve's"):
        await opened("one")
    assert (tmp_path / "kept").exists()


async def test_nothing_is_acknowledged_that_the_store_has_not(s3, opened, monkeypatch):
    backend = await opened()
    monkeypatch.setattr(objects, "CALL_TIMEOUT_S", 0.3)
    s3.freeze()
    try:
        with pytest.raises(StorageFailed, match="in time"):
            await backend.put("", SHA, DATA)
    finally:
        s3.thaw()
    assert cached(backend) == set()


async def test_a_store_that_is_not_there_is_told_in_bounded_time(monkeypatch, s3, tmp_path):
    monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{free_port()}")
    with pytest.raises(StorageFailed, match=f"s3://{BUCKET}/x cannot be used"):
        await CachedBackend.open(tmp_path, ObjectStore(f"s3://{BUCKET}/x"), MIB)
    monkeypatch.setenv("AWS_ENDPOINT_URL", s3.url)
    with pytest.raises(StorageFailed, match="is not there"):
        await CachedBackend.open(tmp_path, ObjectStore("s3://no-such-bucket/x"), MIB)


@pytest.mark.parametrize(
    "bad",
    [
        f"s3://key:{SECRET}@bucket/x", f"s3://bucket/x?secret={SECRET}", f"s3://bucket/x#{SECRET}",
        "s3:///x", "file:///tmp/x", "memory:///", f"https://user:{SECRET}@host/x",
    ],
)  # fmt: skip
def test_urls_with_secrets_or_of_other_places_are_refused(bad):
    with pytest.raises(InvalidRequest) as told:
        ObjectStore(bad)
    assert SECRET not in f"{told.value.message}{told.value.hint}"


async def test_no_secret_is_told(s3, url, opened, monkeypatch, caplog):
    caplog.set_level(logging.DEBUG)
    backend = await opened()
    await backend.put("", SHA, DATA)
    monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{free_port()}")
    with pytest.raises(StorageFailed) as told:
        await ObjectStore(url).has("", SHA)
    error = told.value
    assert SECRET not in f"{error.message}{error.hint}{error.details}{caplog.text}"
    assert "AKIATEST" not in f"{error.message}{error.hint}{caplog.text}"
    assert error.__cause__ is None and error.__suppress_context__
    assert SECRET not in repr(RouterConfig(blob_url=url))


def test_a_folder_and_an_object_store_at_once_are_refused():
    with pytest.raises(InvalidRequest, match="choose one"):
        RouterConfig(blobs=Path("b"), blob_url="s3://bucket/x")


# whole routers


async def test_a_session_goes_on_at_a_router_that_has_none_of_its_pictures(
    url, tmp_path, redis_server: RedisServer
):
    async with AsyncExitStack() as stack:
        fakes = [await stack.enter_async_context(FakeWorker()) for _ in range(2)]
        shared = {"store": redis_server.url, "blob_url": url}
        one, two = [
            await stack.enter_async_context(running_rig(tmp_path / name, fakes, **shared))
            for name in ("one", "two")
        ]
        session = await one.client.create_session(new_session(policy="full"))
        await one.client.turn(session.id, picture(color=(255, 0, 0)))
        await one.client.turn(session.id, picture(color=(0, 255, 0)))
        # all three pictures of the prompt are needed by the host of the other router
        await two.client.turn(session.id, picture(color=(0, 0, 255)))
        assert len(two.worker_of(session).requests[-1]["image_data"]) == 3
        # a drain warms at a router whose cache is empty
        for path in (tmp_path / "two" / "blob-cache").glob("*/*/??/*"):
            path.unlink()
        session = await two.client.session(session.id)
        await two.client.drain(session.pin.worker_id)
        moved = await eventually(lambda: _moved(two, session), timeout_s=30)
        assert len(two.worker_of(moved).requests[-1]["image_data"]) == 3
        with pytest.raises(UnknownBlob):
            await two.services.blobs.read("other", SHA)


async def _moved(rig: Rig, before):
    session = await rig.client.session(before.id)
    return session if session.pin.worker_id != before.pin.worker_id else None


async def test_routers_of_one_store_must_name_the_same_place(url, tmp_path, redis_server):
    shared = {"store": redis_server.url}
    async with running_rig(tmp_path / "one", [], blob_url=url, **shared):
        for other in ({"blob_url": f"{url}-other"}, {"blobs": tmp_path / "b"}):
            config = RouterConfig(data=tmp_path / "two", **shared, **other)
            with pytest.raises(StorageFailed, match="another blob folder"):
                async with running_services(config, scripted_host, Metrics()):
                    pass
