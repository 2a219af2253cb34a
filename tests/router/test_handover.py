"""Pictures that program hosts read while they are stored."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from agentserve.core.blobs import blob_path, read_picture, sha256_of
from agentserve.core.errors import StorageFailed
from agentserve.core.hosting import HostAnswer, HostTurn
from agentserve.router.store import storage_failed
from agentserve.router.turns.handover import Handover
from agentserve.testing.worker import FakeWorker

from .rig import MODEL_SIZE, Rig, eventually, new_session, picture, running_rig

DATA = b"a picture"
SHA = sha256_of(DATA)


async def test_pictures_are_there_for_the_time_of_a_turn(tmp_path):
    handover = Handover(tmp_path / "handover")
    with handover.turn() as one, handover.turn() as other:
        one.put({SHA: DATA})
        other.put({SHA: b"another's"})
        assert read_picture(tmp_path, "", SHA, one.folder) == DATA
    await eventually(lambda: _names(tmp_path / "handover"), lambda names: not names)
    one.put({SHA: DATA})  # of a thread that goes on
    assert not one.folder.exists()
    await handover.stop()


async def test_what_is_not_handed_is_read_where_it_is_stored(tmp_path):
    handover = Handover(tmp_path / "handover")
    path = blob_path(tmp_path, "ann", SHA)
    path.parent.mkdir(parents=True)
    path.write_bytes(DATA)
    with handover.turn() as handed:
        assert read_picture(tmp_path, "ann", SHA, handed.folder) == DATA
        assert read_picture(tmp_path, "ann", SHA, None) == DATA
        with pytest.raises(FileNotFoundError):
            read_picture(tmp_path, "bob", SHA, handed.folder)
    await handover.stop()


async def test_what_a_lost_router_has_left_goes(tmp_path):
    root = tmp_path / "handover"
    (root / "left").mkdir(parents=True)
    (root / "left" / SHA).write_bytes(DATA)
    Handover(root)
    assert await _names(root) == []


async def test_a_folder_that_cannot_be_written_is_told(tmp_path):
    root = tmp_path / "handover"
    handover = Handover(root)
    root.rmdir()
    with handover.turn() as handed, pytest.raises(StorageFailed):
        handed.put({SHA: DATA})
    root.write_bytes(b"a file")
    with pytest.raises(StorageFailed):
        Handover(root)
    await handover.stop()


async def _names(root) -> list[str]:
    return [path.name for path in root.iterdir()]


async def test_the_program_runs_while_its_pictures_are_stored(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
):
    go_on = threading.Event()
    folder = rig.services.blobs._backend.folder
    put = folder.put

    def slow(*arguments: Any) -> None:
        assert go_on.wait(20)
        put(*arguments)

    monkeypatch.setattr(folder, "put", slow)
    session = await rig.client.create_session(new_session(policy="mosaic"))
    shot = picture(MODEL_SIZE, (1, 2, 3))
    before = len(rig.worker_of(session).requests)
    turn = asyncio.create_task(rig.client.turn(session.id, shot))

    async def asked() -> int:
        return len(rig.worker_of(session).requests) - before

    try:
        await eventually(asked)
        assert not blob_path(folder.root, "", sha256_of(shot)).exists()
        assert not turn.done()
    finally:
        go_on.set()
    result = await turn
    assert blob_path(folder.root, "", result.screenshot).read_bytes() == shot


async def test_a_picture_that_cannot_be_stored_ends_the_program(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
):
    asked = asyncio.Event()
    run = rig.services.hosts.turn

    async def watched(turn: HostTurn) -> HostAnswer:
        asked.set()
        return await run(turn)

    async def full(*_: object) -> None:
        await asked.wait()
        raise storage_failed(OSError("No space left on device"))

    session = await rig.client.create_session(new_session())
    with monkeypatch.context() as patched:
        patched.setattr(rig.services.hosts, "turn", watched)
        patched.setattr(rig.services.blobs._backend, "put", full)
        with pytest.raises(StorageFailed):
            await rig.client.turn(session.id, picture(), instruction="!hang")
    after = await rig.client.session(session.id)
    assert (after.status.value, after.epoch, after.turns) == ("idle", 0, 0)
    assert (await rig.types(session.id))[-2:] == ["turn.started", "turn.failed"]
    assert (await rig.client.turn(session.id, picture())).epoch == 0


async def test_a_fork_that_is_made_while_a_turn_is_planned_is_heeded(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
):
    """The plan is made beside the write that keeps further forks away."""
    session = await rig.client.create_session(new_session(policy="mosaic"))
    await rig.client.turn(session.id, picture(MODEL_SIZE))
    forked: list[bool] = []
    update, run = rig.services.store.update, rig.services.hosts.turn

    async def late(*arguments: Any, **named: Any) -> Any:
        if not forked:
            forked.append(False)
            await rig.client.create_session(new_session(policy="mosaic", parent=session.id))
        return await update(*arguments, **named)

    async def watched(turn: HostTurn) -> HostAnswer:
        forked.append(turn.plan.forked)
        return await run(turn)

    monkeypatch.setattr(rig.services.store, "update", late)
    monkeypatch.setattr(rig.services.hosts, "turn", watched)
    await rig.client.turn(session.id, picture(MODEL_SIZE, (9, 9, 9)))
    assert forked == [False, True]


async def test_sessions_go_on_after_a_restart(tmp_path):
    """What was handed is gone, and nothing of a session is in memory."""
    async with FakeWorker() as worker:
        async with running_rig(tmp_path, [worker]) as rig:
            sessions = [
                await rig.client.create_session(new_session(policy=policy))
                for policy in ("full", "mosaic")
            ]
            for session in sessions:
                await rig.client.turn(session.id, picture(MODEL_SIZE))
        async with running_rig(tmp_path, [worker]) as rig:
            for session in sessions:
                for turn in (1, 2):
                    shot = picture(MODEL_SIZE, (4, 5, turn))
                    result = await rig.client.turn(session.id, shot)
                    assert (result.turn, result.usage.stored_prefix_tokens > 0) == (turn, True)
