"""Two routers on one Redis: a session is the same at both, and one of them runs its turn."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from agentserve.core.config import RouterConfig
from agentserve.core.errors import SessionClosed, StorageFailed, TurnInProgress
from agentserve.core.events import EventType
from agentserve.core.sessions import SessionStatus
from agentserve.core.workers import Drain
from agentserve.router.metrics import Metrics
from agentserve.router.services import running_services
from agentserve.router.store import RunningTurn
from agentserve.testing.host import scripted_host
from agentserve.testing.worker import FakeWorker

from .redis_server import RedisServer
from .rig import Rig, eventually, new_session, picture, running_rig

RED, BLUE = picture(color=(255, 0, 0)), picture(color=(0, 0, 255))


@pytest.fixture
async def pair(tmp_path: Path, redis_server: RedisServer) -> AsyncIterator[tuple[Rig, Rig]]:
    async with AsyncExitStack() as stack:
        fakes = [await stack.enter_async_context(FakeWorker()) for _ in range(2)]
        shared = {"store": redis_server.url, "blobs": tmp_path / "blobs"}
        yield tuple(
            [
                await stack.enter_async_context(running_rig(tmp_path / name, fakes, **shared))
                for name in ("one", "two")
            ]
        )


async def test_a_session_goes_on_at_either(pair):
    one, two = pair
    session = await one.client.create_session(new_session())
    assert await two.client.session(session.id) == session
    following = asyncio.create_task(_types(two, session.id))
    first = await one.client.turn(session.id, RED)
    second = await two.client.turn(session.id, BLUE)
    third = await one.client.turn(session.id, RED)
    assert [result.turn for result in (first, second, third)] == [0, 1, 2]
    assert first.worker == second.worker == third.worker
    assert second.loss is None and third.loss is None
    await one.client.release(session.id)
    told = ["turn.started", "turn.completed"] * 3
    assert await following == ["session.created", "pin.placed", *told, "session.released"]


async def _types(rig: Rig, session_id: str) -> list[str]:
    return [event.type.value async for event in rig.client.follow(session_id)]


async def test_a_turn_asked_of_both_is_run_once(pair):
    one, two = pair
    session = await one.client.create_session(new_session())
    worker = one.worker_of(session)
    worker.delay_s = 0.3
    asked = [rig.client.turn(session.id, RED, epoch=0) for rig in (one, two, one, two)]
    answers = await asyncio.gather(*asked)
    assert len(worker.requests) == 1
    assert sorted(answer.replayed for answer in answers) == [False, True, True, True]
    assert len({answer.text for answer in answers}) == 1
    worker.delay_s = 4  # the other is asked long before it ends
    with pytest.raises(TurnInProgress):
        await asyncio.gather(one.client.turn(session.id, RED), two.client.turn(session.id, BLUE))


async def test_a_release_at_one_ends_the_turn_at_the_other(pair):
    one, two = pair
    session = await one.client.create_session(new_session())
    worker = one.worker_of(session)
    worker.delay_s = 30
    running = asyncio.create_task(one.client.turn(session.id, RED))
    await eventually(lambda: two.client.session(session.id), lambda s: s.status == "running")
    await two.client.release(session.id)
    with pytest.raises(SessionClosed):
        await asyncio.wait_for(running, 10)
    assert (await one.client.session(session.id)).status == "released"

    async def released() -> list[dict]:
        return worker.released

    # the worker is told by the router whose turn it was, once that has ended
    (told,) = await eventually(released)
    assert [one["id"] for one in told["sessions"]] == [session.id]
    assert worker.aborted == worker.requests


async def test_a_turn_that_waits_at_one_is_the_others_too(pair):
    one, two = pair
    for rig in pair:
        rig.services.admission.turns._queue.max_running = 1
    blocking = await one.client.create_session(new_session())
    one.worker_of(blocking).faults.append("hang")
    running = asyncio.create_task(one.client.turn(blocking.id, RED))
    await eventually(lambda: two.client.session(blocking.id), lambda s: s.status == "running")
    waits, released = [await one.client.create_session(new_session()) for _ in range(2)]
    first = asyncio.create_task(one.client.turn(waits.id, RED, epoch=0))
    ends = asyncio.create_task(one.client.turn(released.id, RED, epoch=0))
    for session in (waits, released):
        await eventually(
            lambda s=session: two.client.session(s.id), lambda s: s.status == "running"
        )
    stream = two.client.turn_stream(waits.id, RED, epoch=0)
    joins = asyncio.create_task(anext(stream))
    with pytest.raises(TurnInProgress):
        await two.client.turn(waits.id, BLUE, epoch=0)
    await two.client.release(released.id)
    with pytest.raises(SessionClosed):
        await ends
    await two.client.release(blocking.id)
    with pytest.raises(SessionClosed):
        await running
    told = await joins
    assert told.result == (await first).model_copy(update={"replayed": True})
    assert (told.type, (await one.client.session(waits.id)).turns) == ("completed", 1)


async def test_a_turn_of_a_dead_router_can_be_asked_again(pair):
    one, two = pair
    session = await one.client.create_session(new_session())
    record = await one.services.sessions.get(session.id)
    lost = record.with_session(status=SessionStatus.RUNNING).model_copy(
        update={"running": RunningTurn(router="r-dead", key="k")}
    )
    await one.services.events.update(lost)
    result = await eventually(lambda: _turn_or_none(two, session.id), timeout_s=15)
    assert result.turn == 0
    failed = [e for e in await one.events(session.id) if e.type is EventType.TURN_FAILED]
    assert [event.data for event in failed] == [{"code": "router_lost"}]


async def _turn_or_none(rig: Rig, session_id: str):
    try:
        return await rig.client.turn(session_id, RED, epoch=0)
    except TurnInProgress:
        return None


async def test_a_router_that_was_taken_for_dead_changes_nothing(pair):
    """It was silent (a long pause, a cut network), and comes back with its answer."""
    one, two = pair
    session = await one.client.create_session(new_session())
    worker = one.worker_of(session)
    worker.delay_s = 1.0
    late = asyncio.create_task(one.client.turn(session.id, RED, epoch=0))
    await eventually(lambda: two.client.session(session.id), lambda s: s.status == "running")
    await two.services.sessions.recover({two.services.replica.id})
    worker.delay_s = 0
    result = await two.client.turn(session.id, BLUE, epoch=0)
    with pytest.raises(TurnInProgress, match="taken over"):
        await late
    (stored,) = await two.services.store.turns(session.id, 0, 9)
    assert stored.screenshot == result.screenshot
    after = await one.client.session(session.id)
    assert (after.epoch, after.turns, after.status.value) == (1, 1, "idle")


async def test_another_blob_folder_is_refused(pair, tmp_path, redis_server):
    config = RouterConfig(data=tmp_path / "three", store=redis_server.url)
    with pytest.raises(StorageFailed, match="another blob folder"):
        async with running_services(config, scripted_host, Metrics()):
            pass


async def test_a_drain_is_everybodys(pair):
    one, two = pair
    made = [await one.client.create_session(new_session()) for _ in range(4)]
    for session in made:
        await two.client.turn(session.id, RED)
    drained = made[0].pin.worker_id
    await one.client.drain(drained)
    listed = await eventually(
        lambda: two.client.workers(), lambda all: any(w.drain for w in all.workers)
    )
    assert [w.id for w in listed.workers if w.drain] == [drained]

    async def done() -> Drain | None:
        answer = await two.http.get(f"/v1/workers/{drained}/drain")
        return Drain.model_validate(answer.json())

    assert (await eventually(done, lambda drain: drain.done)).left == 0
    assert {(await two.client.session(s.id)).pin.generation for s in made} == {1, 2}
    more = [await two.client.create_session(new_session()) for _ in range(3)]
    assert drained not in {session.pin.worker_id for session in more}
    await two.client.undrain(drained)
    await eventually(
        lambda: one.client.workers(), lambda all: not any(w.drain for w in all.workers)
    )


async def test_a_drain_outlives_its_router(pair):
    one, two = pair
    session = await one.client.create_session(new_session())
    await two.services.store.put_drain(session.pin.worker_id, "r-dead")
    moved = await eventually(
        lambda: one.client.session(session.id), lambda s: s.pin.generation == 2
    )
    assert moved.pin.moved == "drained"
    owner = (await one.services.store.drains())[session.pin.worker_id]
    assert owner in {one.services.replica.id, two.services.replica.id}


async def test_a_dead_workers_sessions_move_once(pair):
    one, two = pair
    made = [await one.client.create_session(new_session()) for _ in range(6)]
    dying = one.worker_of(made[0])
    mine = [s for s in made if one.worker_of(s) is dying]
    await dying.restart()

    async def moved() -> bool:
        pins = [(await two.client.session(s.id)).pin for s in mine]
        return all(pin.boot_id == dying.boot_id or pin.generation > 1 for pin in pins)

    await eventually(moved)
    await asyncio.sleep(0.3)  # both routers have seen the new life
    for session in mine:
        moves = [e for e in await two.events(session.id) if e.type is EventType.PIN_MOVED]
        assert len(moves) == 1
