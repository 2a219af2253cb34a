from __future__ import annotations

import io
import os

import pytest

from agentserve.core.blobs import blob_path, sha256_of
from agentserve.core.errors import InvalidRequest, UnknownBlob
from agentserve.router.blobs import BlobStore, _write_all

from .rig import Rig

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
    assert await store.put(DATA) == SHA
    assert blob_path(tmp_path, SHA).read_bytes() == DATA
    assert await store.put(DATA) == SHA
    assert files(tmp_path) == [f"{SHA[:2]}/{SHA}"]
    assert (await store.has(SHA), await store.size(SHA)) == (True, len(DATA))
    assert await store.read(SHA) == DATA


async def test_received_bytes_must_have_their_hash(tmp_path):
    store = BlobStore(tmp_path)
    with pytest.raises(InvalidRequest, match=SHA):
        await store.receive("0" * 64, chunks(DATA))
    assert files(tmp_path) == []
    assert await store.receive(SHA, chunks(DATA[:5], DATA[5:])) == len(DATA)
    assert await store.read(SHA) == DATA


async def test_a_broken_upload_leaves_nothing(tmp_path):
    async def broken():
        yield DATA[:100]
        raise ConnectionResetError

    with pytest.raises(ConnectionResetError):
        await BlobStore(tmp_path).receive(SHA, broken())
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
    assert not await store.has(SHA)
    for call in (store.read(SHA), store.size(SHA)):
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
