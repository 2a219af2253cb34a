from __future__ import annotations

import io
import os
from collections.abc import AsyncIterator

import pytest
from fastapi import Request

from agentserve.core.blobs import blob_path, sha256_of, tenant_folder
from agentserve.core.errors import InvalidRequest, UnknownBlob
from agentserve.router.api.deps import _tenant
from agentserve.router.blobs import BlobStore, _write_all

from .rig import Rig, new_session, picture, running_rig

DATA = b"some bytes" * 1000
SHA = sha256_of(DATA)


async def chunks(*parts: bytes):
    for part in parts:
        yield part


def files(root) -> list[str]:
    """All but the name that the folder has."""
    return sorted(
        str(p.relative_to(root)) for p in root.rglob("*") if p.is_file() and p.name != "id"
    )


async def test_blobs_lie_where_core_says(tmp_path):
    store = BlobStore(tmp_path)
    assert await store.put("", DATA) == SHA
    assert blob_path(tmp_path, "", SHA).read_bytes() == DATA
    assert await store.put("", DATA) == SHA
    assert files(tmp_path) == [f"{tenant_folder('')}/{SHA[:2]}/{SHA}"]
    assert (await store.has("", SHA), await store.size("", SHA)) == (True, len(DATA))
    assert await store.read("", SHA) == DATA


async def test_received_bytes_must_have_their_hash(tmp_path):
    store = BlobStore(tmp_path)
    with pytest.raises(InvalidRequest, match=SHA):
        await store.receive("", "0" * 64, chunks(DATA))
    assert files(tmp_path) == []
    assert await store.receive("", SHA, chunks(DATA[:5], DATA[5:])) == len(DATA)
    assert await store.read("", SHA) == DATA


async def test_a_broken_upload_leaves_nothing(tmp_path):
    async def broken():
        yield DATA[:100]
        raise ConnectionResetError

    with pytest.raises(ConnectionResetError):
        await BlobStore(tmp_path).receive("", SHA, broken())
    assert files(tmp_path) == []


async def test_leftovers_of_a_crash_go_at_the_start(tmp_path):
    (tmp_path / "incoming").mkdir()
    old, fresh = tmp_path / "incoming" / "tmpold", tmp_path / "incoming" / "tmpnew"
    for path in (old, fresh):
        path.write_bytes(b"half")
    os.utime(old, (1, 1))
    BlobStore(tmp_path)
    assert files(tmp_path) == ["incoming/tmpnew"]  # another router may be receiving it


async def test_a_folder_keeps_its_name(tmp_path):
    one, two = BlobStore(tmp_path / "a"), BlobStore(tmp_path / "b")
    assert BlobStore(tmp_path / "a").id == one.id != two.id
    assert files(tmp_path / "a") == []


async def test_unknown_blobs(tmp_path):
    store = BlobStore(tmp_path)
    assert not await store.has("", SHA)
    for call in (store.read("", SHA), store.size("", SHA)):
        with pytest.raises(UnknownBlob, match=SHA):
            await call


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
async def tenants(tmp_path) -> AsyncIterator[Rig]:
    """A router that takes the header X-Tenant for who asks."""

    def by_header(request: Request) -> str:
        return request.headers.get("x-tenant", "")

    async with running_rig(tmp_path, overrides={_tenant: by_header}) as running:
        yield running


async def test_what_another_tenant_has_is_unknown(tenants: Rig):
    data = picture()
    sha = sha256_of(data)
    path, http = f"/v1/blobs/{sha}", tenants.http
    ann, bob = {"x-tenant": "ann"}, {"x-tenant": "bob"}
    assert (await http.put(path, content=data, headers=ann)).status_code == 201
    assert (await http.head(path, headers=ann)).status_code == 200
    assert (await http.head(path, headers=bob)).status_code == 404
    assert (await http.head(path)).status_code == 404
    session = await tenants.client.create_session(new_session())
    turn = {"json": {"screenshot": {"blob": sha}}, "headers": bob}
    answer = await http.post(f"/v1/sessions/{session.id}/turns", **turn)
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
    _write_all(file, DATA)
    assert file.taken == DATA
