from __future__ import annotations

import asyncio
import json
import os

import pytest

from agentserve.core.errors import InvalidRequest, UnknownWorker, WorkerInUse
from agentserve.router.store import SqliteStore
from agentserve.router.workers import discovery
from agentserve.router.workers.discovery import (
    FileDiscovery,
    RuntimeDiscovery,
    StaticDiscovery,
    read_workers,
)
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


async def test_workers_are_added_and_removed_at_run_time(tmp_path):
    async with FakeWorker() as first, FakeWorker() as second:
        async with running_rig(tmp_path, [first]) as rig:
            added = await rig.client.add_worker(second.url + "/")
            assert (added.url, added.state.value) == (second.url, "starting")

            async def ready() -> int:
                listed = (await rig.client.workers()).workers
                return sum(worker.state.value == "ready" for worker in listed)

            await eventually(ready, lambda n: n == 2)
            assert (await rig.client.add_worker(second.url)).state.value == "ready"
            sessions = [await rig.client.create_session(new_session()) for _ in range(4)]
            there = [s for s in sessions if s.pin.worker_id == added.id]
            assert there, "it serves like the others"

            with pytest.raises(WorkerInUse, match=f"{len(there)} sessions"):
                await rig.client.remove_worker(added.id)
            mine = rig.services.registry.snapshot({})[0].id
            with pytest.raises(WorkerInUse, match="was not added by the API"):
                await rig.client.remove_worker(mine, force=True)
            with pytest.raises(UnknownWorker):
                await rig.client.remove_worker("w-none")
            lines = [json.loads(one) for one in (tmp_path / "audit.jsonl").read_text().splitlines()]
            assert [(line["action"], line["target"]) for line in lines][:1] == [
                ("worker.add", second.url)
            ]

        # it is in the store: the next router has it, too
        async with running_rig(tmp_path, [first]) as rig:
            await eventually(lambda: _urls(rig), lambda urls: urls == {first.url, second.url})
            await rig.client.remove_worker(added.id, force=True)
            await eventually(lambda: _urls(rig), lambda urls: urls == {first.url})
            for session in there:
                result = await rig.client.turn(session.id, RED, epoch=0)
                assert result.worker.id == mine


async def _urls(rig) -> set[str]:
    return {worker.url for worker in (await rig.client.workers()).workers}


@pytest.mark.parametrize(
    "url",
    [
        "", "a:1", "ftp://a", "http://", "http://a:0", "http://a:70000", "http://u:p@a:1",
        "http://a:1?x=1", "http://a:1#x", "http://a b:1", "http://a:1\n", "http://[::1",
        "http://" + "a" * 2000,
    ],
)  # fmt: skip
async def test_what_is_no_workers_url(rig, url):
    answer = await rig.http.post("/v1/workers", json={"url": url})
    assert (answer.status_code, answer.json()["code"]) == (422, "invalid_request")
    assert await rig.services.store.added_workers() == []


async def test_what_was_named_at_the_start_may_change_too(tmp_path, monkeypatch):
    monkeypatch.setattr(discovery, "LOOK_EVERY_S", 0.01)
    store = await SqliteStore.open(tmp_path / "sessions.sqlite")
    path = tmp_path / "workers"
    write(path, "http://a:1")
    found = RuntimeDiscovery(FileDiscovery(path), store)
    told = found.workers()
    assert await anext(told) == ["http://a:1"]
    await found.add("http://c:1")
    assert await anext(told) == ["http://a:1", "http://c:1"]
    write(path, "http://b:1", "http://c:1")
    assert await anext(told) == ["http://b:1", "http://c:1"]
    with pytest.raises(WorkerInUse):
        await found.remove("http://c:1")  # the file names it as well
    await told.aclose()
    await store.close()
