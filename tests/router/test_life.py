"""Sessions that rest, many that are closed at once, and what is forgotten in the end."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest

from agentserve.core.bulk import BulkRelease
from agentserve.core.errors import (
    InvalidRequest,
    SessionClosed,
    SessionPaused,
    TurnInProgress,
    UnknownSession,
)
from agentserve.router.sessions import now

from .rig import Rig, eventually, new_session, picture, running_rig


async def refused(call, error: type[Exception]) -> Exception:
    with pytest.raises(error) as raised:
        await call
    return raised.value


async def test_a_paused_session_rests_and_goes_on(rig: Rig):
    session = await rig.client.create_session(new_session())
    await rig.client.turn(session.id, picture(), epoch=0)
    loads = {w.id: w.sessions for w in (await rig.client.workers()).workers}
    paused = await rig.client.pause(session.id)
    assert (paused.status.value, paused.epoch) == ("paused", 1)
    assert (await rig.client.pause(session.id)).status.value == "paused"
    after = {w.id: w.sessions for w in (await rig.client.workers()).workers}
    assert after[session.pin.worker_id] == loads[session.pin.worker_id] - 1

    error = await refused(rig.client.turn(session.id, picture(), epoch=1), SessionPaused)
    assert "/resume" in error.hint
    await refused(rig.client.create_session(new_session(parent=session.id)), SessionPaused)

    resumed = await rig.client.resume(session.id)
    assert (resumed.status.value, resumed.epoch) == ("idle", 1)
    assert (await rig.client.resume(session.id)).status.value == "idle"
    result = await rig.client.turn(session.id, picture(), epoch=1)
    assert (result.epoch, result.loss) == (1, None), "nothing was lost: its worker lived on"
    types = await rig.types(session.id)
    assert types[4:6] == ["session.paused", "session.resumed"]


async def test_a_running_session_is_not_paused_nor_a_closed_one(rig: Rig):
    session = await rig.client.create_session(new_session())
    turn = asyncio.create_task(
        rig.client.turn(session.id, picture(), instruction="!sleep 2", epoch=0)
    )
    await eventually(lambda: rig.client.session(session.id), lambda s: s.status.value == "running")
    await refused(rig.client.pause(session.id), TurnInProgress)
    await turn
    await rig.client.pause(session.id)
    released = await rig.client.release(session.id)
    assert (released.status.value, released.closed_at is not None) == ("released", True)
    await refused(rig.client.pause(session.id), SessionClosed)
    await refused(rig.client.resume(session.id), SessionClosed)
    await refused(rig.client.pause("s_none"), UnknownSession)


async def test_a_paused_session_does_not_expire_for_being_idle(tmp_path):
    async with running_rig(tmp_path) as rig:
        idle, resting, old = [
            await rig.client.create_session(new_session(inactivity_timeout_s=0.5, timeout_s=limit))
            for limit in (60, 60, 2)
        ]
        await rig.client.pause(resting.id)
        await rig.client.pause(old.id)
        for session, reason in ((idle, "inactivity"), (old, "timeout")):
            await eventually(
                lambda session=session: rig.client.session(session.id),
                lambda s: s.status.value == "expired",
            )
            last = (await rig.events(session.id))[-1]
            assert last.data == {"reason": reason}
        assert (await rig.client.session(resting.id)).status.value == "paused"
        assert (await rig.client.resume(resting.id)).status.value == "idle"


async def test_a_paused_session_is_followed_until_it_is_closed(rig: Rig):
    session = await rig.client.create_session(new_session())
    await rig.client.pause(session.id)

    async def follow() -> list[str]:
        return [event.type.value async for event in rig.client.follow(session.id, after=2)]

    following = asyncio.create_task(follow())
    await rig.client.resume(session.id)
    await rig.client.release(session.id)
    async with asyncio.timeout(20):
        assert await following == ["session.paused", "session.resumed", "session.released"]


async def test_many_are_released_at_once(tmp_path):
    async with running_rig(tmp_path) as rig:
        made = [
            await rig.client.create_session(
                new_session(metadata={"suite": f"{n % 2}", "n": f"{n}"})
            )
            for n in range(7)
        ]
        await rig.client.pause(made[1].id)
        running = asyncio.create_task(
            rig.client.turn(made[3].id, picture(), instruction="!hang", epoch=0)
        )
        await eventually(
            lambda: rig.client.session(made[3].id), lambda s: s.status.value == "running"
        )
        told = await rig.client.release_some(BulkRelease(metadata={"suite": "1"}))
        assert (told.released, told.unknown) == (3, [])
        await refused(running, SessionClosed)
        open_ones = (await rig.client.sessions(status="idle")).sessions
        assert {s.metadata["n"] for s in open_ones} == {"0", "2", "4", "6"}

        ids = [made[0].id, made[0].id, made[1].id, "s_none"]
        told = await rig.client.release_some(BulkRelease(ids=ids))
        assert (told.released, told.unknown) == (1, ["s_none"])
        assert (await rig.client.release_some(BulkRelease(all=True))).released == 3
        assert (await rig.client.release_some(BulkRelease(all=True))).released == 0


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"ids": []},
        {"all": False},
        {"metadata": {}},
        {"all": True, "ids": ["s_1"]},
        {"ids": ["/"]},
    ],
)
async def test_a_bulk_release_says_which(rig: Rig, body):
    answer = await rig.http.post("/v1/sessions/release", json=body)
    assert (answer.status_code, answer.json()["code"]) == (422, InvalidRequest.code)


async def test_closed_sessions_are_forgotten_in_the_end(tmp_path):
    async with running_rig(tmp_path, retention_s=3600) as rig:
        old, young, idle = [await rig.client.create_session(new_session()) for _ in range(3)]
        await rig.client.turn(old.id, picture(), epoch=0)
        for session in (old, young):
            await rig.client.release(session.id)
        store = rig.services.store
        record = await store.get(old.id)
        await store.update(record.with_session(closed_at=now() - timedelta(hours=2)))

        async def gone() -> bool:
            return await store.get(old.id) is None

        await eventually(gone)
        await refused(rig.client.events(old.id), UnknownSession)
        assert await store.transcript(old.id) == []
        assert (await rig.client.session(young.id)).status.value == "released"
        assert (await rig.client.session(idle.id)).status.value == "idle"
