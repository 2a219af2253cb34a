from __future__ import annotations

import asyncio
import os

import pytest

from agentserve.core.errors import InvalidRequest
from agentserve.router import discovery
from agentserve.router.discovery import FileDiscovery, StaticDiscovery, read_workers
from agentserve.testing.worker import FakeWorker

from .rig import eventually, new_session, picture, running_rig

RED = picture(color=(255, 0, 0))


def write(path, *lines: str) -> None:
    path.with_suffix(".new").write_text("\n".join(lines) + "\n")
    os.replace(path.with_suffix(".new"), path)


def test_a_file_of_workers(tmp_path):
    path = tmp_path / "workers"
    write(path, "# ours", "http://a:1/", "", "https://b:2  # the second", "http://a:1")
    assert read_workers(path) == ["http://a:1", "https://b:2"]


@pytest.mark.parametrize(
    ("text", "words"),
    [("http://a:1\nb:2\n", "line 2: 'b:2' is not"), ("\xff" * 9, "line 1"), ("#" * 2**21, "bytes")],
)
def test_mistakes_name_their_line(tmp_path, text, words):
    path = tmp_path / "workers"
    path.write_text(text)
    with pytest.raises(InvalidRequest, match=words):
        read_workers(path)
    with pytest.raises(InvalidRequest, match="cannot be read"):
        read_workers(tmp_path / "none")


async def test_static_workers_never_change():
    assert [urls async for urls in StaticDiscovery(["http://a:1"]).workers()] == [["http://a:1"]]


async def test_a_broken_file_changes_nothing(tmp_path, monkeypatch, caplog):
    monkeypatch.setattr(discovery, "LOOK_EVERY_S", 0.01)
    path = tmp_path / "workers"
    write(path, "http://a:1")
    told = FileDiscovery(path).workers()
    assert await anext(told) == ["http://a:1"]
    write(path, "a:1")

    async def mend() -> list[str]:
        return await anext(told)

    waiting = asyncio.create_task(mend())
    await asyncio.sleep(0.1)
    assert not waiting.done()
    write(path, "http://a:1", "http://b:1")
    assert await waiting == ["http://a:1", "http://b:1"]
    assert len([r for r in caplog.records if "stay as they were" in r.message]) == 1


async def test_workers_come_and_go_with_the_file(tmp_path, monkeypatch):
    monkeypatch.setattr(discovery, "LOOK_EVERY_S", 0.05)
    path = tmp_path / "workers"
    async with FakeWorker() as one, FakeWorker() as two:
        write(path, one.url)
        async with running_rig(tmp_path, [one], workers=(), workers_file=path) as rig:
            session = await rig.client.create_session(new_session())
            await rig.client.turn(session.id, RED)
            write(path, two.url)

            async def listed() -> list[str]:
                return [w.url for w in (await rig.client.workers()).workers if w.boot_id]

            await eventually(listed, lambda urls: urls == [two.url])
            result = await rig.client.turn(session.id, picture(color=(0, 0, 255)))
            assert result.worker.boot_id == two.boot_id
            moved = await rig.client.session(session.id)
            assert (moved.pin.generation, moved.pin.moved) == (2, "gone")
