"""Clients that go away, and sessions that end, while their turn waits or runs."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator

import pytest

from agentserve.core.errors import SessionClosed
from agentserve.core.sessions import Session, TurnResult
from agentserve.testing.worker import FakeWorker

from ..rig import Rig, eventually, new_session, picture, running_rig
from .test_turns import blocked, queued, reaches, told

RED = picture(color=(255, 0, 0))


@pytest.fixture(scope="module")
async def narrow(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Rig]:
    """A router that runs one turn at a time."""
    data = tmp_path_factory.mktemp("narrow")
    async with (
        FakeWorker() as worker,
        running_rig(data, [worker], max_running_turns=1) as rig,
    ):
        yield rig


async def leave(*turns: asyncio.Task[TurnResult]) -> None:
    for turn in turns:
        turn.cancel()
    await asyncio.wait(turns)


async def sent(rig: Rig, session: Session) -> FakeWorker:
    """The session's worker, once it has got a request that it will not answer."""
    worker = rig.worker_of(session)

    async def has_it() -> bool:
        return bool(worker.requests)

    await eventually(has_it)
    return worker


async def wait_for_it(rig: Rig, session: Session, number: int) -> None:
    """Returns once so many clients wait for the session's turn."""

    async def waiting() -> int:
        turn = rig.services.turns._asked.get(session.id)
        return 0 if turn is None else turn.waiting

    await eventually(waiting, lambda found: found == number)


async def hanging(rig: Rig) -> tuple[Session, FakeWorker]:
    session = await rig.client.create_session(new_session())
    worker = rig.worker_of(session)
    worker.faults.append("hang")
    worker.requests.clear()
    worker.aborted.clear()
    return session, worker


async def aborts(worker: FakeWorker) -> None:
    async def it_has() -> bool:
        return len(worker.aborted) == 1 and worker.aborted == worker.requests[:1]

    await eventually(it_has)


async def is_idle(rig: Rig, session: Session) -> None:
    after = await eventually(lambda: rig.client.session(session.id), lambda s: s.status == "idle")
    assert (after.epoch, after.turns) == (0, 0)
    failed = [event for event in await rig.events(session.id) if event.type == "turn.failed"]
    assert [event.data["code"] for event in failed] == ["cancelled"]


async def test_a_turn_that_waits_for_nobody_is_dropped(narrow: Rig):
    go_on = await blocked(narrow)
    session = await narrow.client.create_session(new_session())
    first = await queued(narrow, session)
    second = asyncio.create_task(narrow.client.turn(session.id, RED, epoch=0))
    await wait_for_it(narrow, session, 2)
    await leave(first)
    await wait_for_it(narrow, session, 1)
    await reaches(narrow, 1, 1)  # the second may still wait
    await leave(second)
    await reaches(narrow, 1, 0)
    await is_idle(narrow, session)
    again = await queued(narrow, session)
    await go_on()
    result = await again
    assert (result.turn, result.replayed) == (0, False)
    assert (await told(narrow, session))[-3:] == ["turn.queued", "turn.started", "turn.completed"]


async def test_a_running_turn_goes_on_without_its_client_by_default(narrow: Rig):
    session = await narrow.client.create_session(new_session())
    narrow.workers[0].requests.clear()
    narrow.workers[0].delay_s = 0.5
    turn = asyncio.create_task(narrow.client.turn(session.id, RED, epoch=0))
    await sent(narrow, session)
    await leave(turn)
    after = await eventually(lambda: narrow.client.session(session.id), lambda s: s.epoch == 1)
    narrow.workers[0].delay_s = 0
    assert after.status == "idle"
    assert (await narrow.client.turn(session.id, RED, epoch=0)).replayed


async def test_the_last_client_to_leave_may_cancel_a_running_turn(narrow: Rig):
    session, worker = await hanging(narrow)
    ask = {"epoch": 0, "on_disconnect": "cancel"}
    first = asyncio.create_task(narrow.client.turn(session.id, RED, **ask))
    await sent(narrow, session)
    second = asyncio.create_task(narrow.client.turn(session.id, RED, **ask))
    await wait_for_it(narrow, session, 2)
    await leave(second)
    await wait_for_it(narrow, session, 1)
    assert worker.aborted == []
    await leave(first)
    await aborts(worker)
    await is_idle(narrow, session)
    await reaches(narrow, 0, 0)
    assert (await narrow.client.turn(session.id, RED, epoch=0)).turn == 0


async def test_one_client_that_wants_the_answer_keeps_the_turn(narrow: Rig):
    session, worker = await hanging(narrow)
    stays = asyncio.create_task(narrow.client.turn(session.id, RED, epoch=0))
    await sent(narrow, session)
    leaves = asyncio.create_task(
        narrow.client.turn(session.id, RED, epoch=0, on_disconnect="cancel")
    )
    await wait_for_it(narrow, session, 2)
    await leave(stays)
    await wait_for_it(narrow, session, 1)
    await leave(leaves)
    await wait_for_it(narrow, session, 0)
    await asyncio.sleep(0.3)  # for an abort that must not come
    assert worker.aborted == []
    assert (await narrow.client.session(session.id)).status == "running"
    await narrow.client.release(session.id)
    await aborts(worker)


async def test_a_release_aborts_what_runs_on_the_worker(narrow: Rig):
    session, worker = await hanging(narrow)
    turn = asyncio.create_task(narrow.client.turn(session.id, RED))
    await sent(narrow, session)
    await narrow.client.release(session.id)
    with pytest.raises(SessionClosed):
        await turn
    await aborts(worker)
    await reaches(narrow, 0, 0)


async def test_a_release_is_told_again_when_a_library_has_lost_it(
    narrow: Rig, monkeypatch: pytest.MonkeyPatch
):
    """As asyncio.wait_for does, when what it waits for ends at the moment of the cancellation."""
    session, worker = await hanging(narrow)
    hosts, lost = narrow.services.hosts, 0
    run = hosts.turn

    async def losing(turn):
        nonlocal lost
        try:
            return await run(turn)
        except asyncio.CancelledError:
            lost += 1
            if lost > 1:
                raise
        return await run(turn)

    monkeypatch.setattr(hosts, "turn", losing)
    worker.faults.append("hang")
    turn = asyncio.create_task(narrow.client.turn(session.id, RED))
    await sent(narrow, session)
    await narrow.client.release(session.id)
    with pytest.raises(SessionClosed):
        await turn
    assert lost == 1
    await reaches(narrow, 0, 0)


@pytest.mark.parametrize("seed", range(4))
async def test_no_place_is_lost_however_clients_come_and_go(narrow: Rig, seed: int):
    sessions = [await narrow.client.create_session(new_session()) for _ in range(6)]

    async def ask(session: Session, patience_s: float) -> None:
        how = "cancel" if seed % 2 else "continue"
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(patience_s):
                await narrow.client.turn(session.id, RED, epoch=0, on_disconnect=how)

    waits = [0.01 * (seed + 1) * number for number in range(18)]
    await asyncio.gather(*(ask(sessions[n % 6], wait) for n, wait in enumerate(waits)))
    await reaches(narrow, 0, 0)
    for session in sessions:
        result = await narrow.client.turn(session.id, RED, epoch=0)
        assert result.turn == 0
        assert (await narrow.client.session(session.id)).status == "idle"
