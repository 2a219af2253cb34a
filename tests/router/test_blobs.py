from __future__ import annotations

import asyncio
import io
import os
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from agentserve.core.blobs import blob_path, sha256_of, tenant_folder
from agentserve.core.config import MIN_BLOB_TTL_S, RouterConfig
from agentserve.core.errors import InvalidRequest, QuotaExceeded, UnknownBlob
from agentserve.core.tenants import Role, new_key
from agentserve.router.blobs import BlobStore
from agentserve.router.blobs.backend import FolderBackend
from agentserve.router.blobs.folder import BlobFolder, write_all
from agentserve.router.metrics import Metrics
from agentserve.router.store import SqliteStore, Store

from .records import age_blob
from .rig import Rig, new_session, picture, running_rig

DATA = b"some bytes" * 1000
SHA = sha256_of(DATA)


async def chunks(*parts: bytes):
    for part in parts:
        yield part


def named(*blobs: bytes) -> dict[str, bytes]:
    return {sha256_of(data): data for data in blobs}


def picture_of_noise(seed: int = 0) -> bytes:
    noise = np.random.default_rng(seed).integers(0, 256, (210, 160, 3), np.uint8)
    out = io.BytesIO()
    Image.fromarray(noise).save(out, "PNG")
    return out.getvalue()


def files(root) -> list[str]:
    """All but the name that the folder has."""
    return sorted(
        str(p.relative_to(root)) for p in root.rglob("*") if p.is_file() and p.name != "id"
    )


@pytest.fixture
async def database(tmp_path) -> AsyncIterator[Store]:
    opened = await SqliteStore.open(tmp_path / "s.sqlite")
    yield opened
    await opened.close()


@pytest.fixture
def root(tmp_path) -> Path:
    return tmp_path / "blobs"


@pytest.fixture
def make(root, database) -> Callable[..., BlobStore]:
    """``make(quota=…, ttl_s=…)``: blobs as a router has them, one more at each call."""

    def made(quota: int = 0, ttl_s: float = 0) -> BlobStore:
        backend = FolderBackend(root)
        return BlobStore(backend, database.ledger, Metrics(), quota=quota, ttl_s=ttl_s)

    return made


async def test_blobs_lie_where_core_says(make, root):
    store = make()
    await store.put("", named(DATA))
    assert blob_path(root, "", SHA).read_bytes() == DATA
    await store.put("", named(DATA))
    assert files(root) == [f"{tenant_folder('')}/{SHA[:2]}/{SHA}"]
    assert (await store.has("", SHA), await store.size("", SHA)) == (True, len(DATA))
    assert await store.read("", SHA) == DATA


async def test_received_bytes_must_have_their_hash(make, root, database):
    store = make()
    with pytest.raises(InvalidRequest, match=SHA):
        await store.receive("", "0" * 64, chunks(DATA))
    assert files(root) == []
    assert await database.ledger.used("") == 0
    assert await store.receive("", SHA, chunks(DATA[:5], DATA[5:])) == len(DATA)
    assert await store.read("", SHA) == DATA


async def test_a_broken_upload_leaves_nothing(make, root, database):
    async def broken():
        yield DATA[:100]
        raise ConnectionResetError

    with pytest.raises(ConnectionResetError):
        await make().receive("", SHA, broken())
    assert files(root) == []
    assert await database.ledger.used("") == 0


def test_leftovers_of_a_crash_go_at_the_start(root):
    (root / "incoming").mkdir(parents=True)
    old, fresh = root / "incoming" / "tmpold", root / "incoming" / "tmpnew"
    for path in (old, fresh):
        path.write_bytes(b"half")
    os.utime(old, (1, 1))
    BlobFolder(root)
    assert files(root) == ["incoming/tmpnew"]  # another router may be receiving it


def test_a_folder_keeps_its_name(tmp_path):
    one, two = BlobFolder(tmp_path / "a"), BlobFolder(tmp_path / "b")
    assert BlobFolder(tmp_path / "a").id == one.id != two.id
    assert files(tmp_path / "a") == []


async def test_unknown_blobs(make):
    store = make()
    assert not await store.has("", SHA)
    for call in (store.read("", SHA), store.size("", SHA)):
        with pytest.raises(UnknownBlob, match=SHA):
            await call
    with pytest.raises(UnknownBlob, match=SHA):
        async with store.using("", [SHA]):
            pass


async def test_a_blob_whose_bytes_are_lost_is_unknown_until_it_is_sent_again(make, root, database):
    store = make()
    await store.put("", named(DATA))
    blob_path(root, "", SHA).unlink()
    assert not await store.has("", SHA)
    with pytest.raises(UnknownBlob):
        await store.read("", SHA)
    await store.put("", named(DATA))
    assert await store.read("", SHA) == DATA
    assert await database.ledger.used("") == len(DATA)


async def test_what_goes_over_the_quota_is_not_stored(make, root):
    store = make(quota=len(DATA) + 10)
    await store.put("ann", named(DATA))
    before = files(root)
    with pytest.raises(QuotaExceeded) as told:
        await store.put("ann", named(b"x" * 8, b"y" * 8))
    assert told.value.details == {"used": len(DATA), "needed": 16, "limit": len(DATA) + 10}
    with pytest.raises(QuotaExceeded):
        await store.receive("ann", sha256_of(b"x" * 11), chunks(b"x" * 11))
    assert files(root) == before
    await store.put("ann", named(DATA))  # it has that already
    await store.put("bob", named(DATA))  # of its own quota
    await store.put("ann", named(b"x" * 10))
    # right after a restart the sum is the same
    with pytest.raises(QuotaExceeded):
        await make(quota=len(DATA) + 10).put("ann", named(b"y"))


async def test_what_is_not_used_expires(make, root, database):
    store = make(ttl_s=MIN_BLOB_TTL_S)
    await store.put("", named(DATA))
    old = sha256_of(b"old")
    await store.put("", named(b"old"))
    await age_blob(database, "", old, MIN_BLOB_TTL_S + 1)
    assert not await store.expire()
    assert files(root) == [f"{tenant_folder('')}/{SHA[:2]}/{SHA}"]
    assert not await store.has("", old)
    assert await database.ledger.used("") == len(DATA)


@pytest.mark.parametrize("use", ["read", "has", "size", "use", "using"])
async def test_whoever_uses_a_blob_keeps_it(make, database, use):
    await make().put("", named(DATA))
    await age_blob(database, "", SHA, MIN_BLOB_TTL_S + 1)
    store = make(ttl_s=MIN_BLOB_TTL_S)
    if use == "using":
        async with store.using("", [SHA]):
            pass
    else:
        await getattr(store, use)("", [SHA] if use == "use" else SHA)
    await store.expire()
    assert await store.read("", SHA) == DATA


async def test_a_blob_sent_again_while_it_is_removed_is_stored_anew(make, root, database):
    await make().put("", named(DATA))
    await age_blob(database, "", SHA, MIN_BLOB_TTL_S + 1)
    leaving = await database.ledger.leave(MIN_BLOB_TTL_S, 600, 9)  # another router, a slow one
    store = make(ttl_s=MIN_BLOB_TTL_S)
    putting = asyncio.create_task(store.put("", named(DATA)))
    await asyncio.sleep(0.1)
    assert not putting.done()
    blob_path(root, "", SHA).unlink()
    await database.ledger.drop(leaving)
    await putting
    assert await store.read("", SHA) == DATA


def test_a_time_to_live_that_a_session_may_outlast_is_refused():
    with pytest.raises(InvalidRequest, match="blob_ttl_s"):
        RouterConfig(blob_ttl_s=MIN_BLOB_TTL_S - 1)
    assert RouterConfig(blob_ttl_s=0).blob_ttl_s == 0


async def test_a_router_refuses_removes_and_says_so(tmp_path):
    """Over HTTP: a quota for all that a turn stores, and the reaper at work."""
    async with running_rig(tmp_path, blob_quota_bytes=2500) as rig:
        session = await rig.client.create_session(new_session())
        await rig.client.turn(session.id, picture())
        ledger = rig.services.store.ledger
        used = await ledger.used("")
        assert used == sum(p.stat().st_size for p in (tmp_path / "blobs").glob("*/??/*"))
        refused = await rig.http.put(f"/v1/blobs/{SHA}", content=DATA)
        body = refused.json()
        assert (refused.status_code, body["code"]) == (403, "quota_exceeded")
        assert body["details"] == {"used": used, "needed": len(DATA), "limit": 2500}
        noise = picture_of_noise()
        with pytest.raises(QuotaExceeded):
            await rig.client.turn(session.id, noise)
        assert (await rig.client.session(session.id)).status == "idle"
        assert await ledger.used("") == used
        old = await rig.client.put_blob(b"old")
        await age_blob(rig.services.store, "", old, MIN_BLOB_TTL_S * 10)
        await rig.services.blobs.expire()
        assert not await rig.client.has_blob(old)
        assert await ledger.used("") == used


async def test_a_fork_keeps_what_its_parent_holds(tmp_path):
    async with running_rig(tmp_path) as rig:
        session = await rig.client.create_session(new_session())
        await rig.client.turn(session.id, picture())
        blobs = rig.services.blobs
        blobs._fresh.clear()  # as an hour later
        shown = [p.name for p in (tmp_path / "blobs").glob("*/??/*")]
        await rig.client.create_session(new_session(parent=session.id))
        used = [name for _, name in blobs._fresh]
        assert used and set(used) < set(shown)


async def test_over_http(rig: Rig):
    data = b"over http" * 99
    sha = sha256_of(data)
    assert (await rig.http.head(f"/v1/blobs/{sha}")).status_code == 404
    first = await rig.http.put(f"/v1/blobs/{sha}", content=data)
    assert (first.status_code, first.json()) == (201, {"sha256": sha, "size": len(data)})
    again = await rig.http.put(f"/v1/blobs/{sha}", content=data)
    assert (again.status_code, again.json()) == (200, first.json())
    head = await rig.http.head(f"/v1/blobs/{sha}")
    assert (head.status_code, head.headers["content-length"]) == (200, str(len(data)))
    wrong = await rig.http.put(f"/v1/blobs/{'1' * 64}", content=data)
    assert wrong.status_code == 422


@pytest.fixture
async def tenants(tmp_path) -> AsyncIterator[tuple[Rig, dict[str, dict[str, str]]]]:
    """A router, and each tenant's headers."""
    keys = {"root": new_key("ops", Role.ADMIN), "ann": new_key("ann"), "bob": new_key("bob")}
    async with running_rig(tmp_path, keys=keys, auth="keys") as running:
        running.http.headers["authorization"] = f"Bearer {keys['root'][0]}"
        yield running, {name: {"x-api-key": text} for name, (text, _) in keys.items()}


async def test_what_another_tenant_has_is_unknown(tenants):
    data = picture()
    sha = sha256_of(data)
    rig, keys = tenants
    path, http, ann, bob = f"/v1/blobs/{sha}", rig.http, keys["ann"], keys["bob"]
    assert (await http.put(path, content=data, headers=ann)).status_code == 201
    assert (await http.head(path, headers=ann)).status_code == 200
    assert (await http.head(path, headers=bob)).status_code == 404
    assert (await http.head(path)).status_code == 404
    create = new_session().model_dump(mode="json", exclude_none=True)
    session = (await http.post("/v1/sessions", json=create, headers=bob)).json()["id"]
    turn = {"json": {"screenshot": {"blob": sha}}, "headers": bob}
    answer = await http.post(f"/v1/sessions/{session}/turns", **turn)
    assert (answer.status_code, answer.json()["code"]) == (404, "unknown_blob")
    # who knows the hash has to show the bytes, and is told nothing but that they are its own now
    assert (await http.put(path, content=data[:-1], headers=bob)).status_code == 422
    assert (await http.put(path, content=data, headers=bob)).status_code == 201
    assert (await http.put(path, content=data, headers=bob)).status_code == 200


class _ShortWrites(io.RawIOBase):
    """A raw file that takes at most three bytes at a time, as the system may."""

    def __init__(self) -> None:
        self.taken = b""

    def write(self, data) -> int:
        self.taken += bytes(data[:3])
        return len(data[:3])


def test_a_write_that_takes_a_part_is_continued():
    file = _ShortWrites()
    write_all(file, DATA)
    assert file.taken == DATA
