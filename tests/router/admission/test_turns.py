"""Turns that wait for a place: what is shown of them, and how they end."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest

from agentserve.client import RouterClient
from agentserve.core.errors import (
    AgentServeError,
    OverCapacity,
    SessionClosed,
    StaleEpoch,
    TurnInProgress,
)
from agentserve.core.sessions import Session, TurnResult
from agentserve.core.tenants import ApiKey, KeyLimits, Role, new_key
from agentserve.testing.worker import FakeWorker

from ..rig import Rig, eventually, new_session, picture, running_rig

RED, BLUE = picture(color=(255, 0, 0)), picture(color=(0, 0, 255))


@pytest.fixture(scope="module")
async def narrow(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Rig]:
    """A router that runs one turn at a time and queues three."""
    limits = {"max_running_turns": 1, "max_queued_turns": 3}
    data = tmp_path_factory.mktemp("narrow")
    async with FakeWorker() as worker, running_rig(data, [worker], **limits) as rig:
        yield rig


def in_admission(rig: Rig) -> tuple[int, int]:
    return rig.services.admission.turns.running, rig.services.admission.turns.queued


async def reaches(rig: Rig, running: int, queued: int) -> None:
    async def now() -> tuple[int, int]:
        return in_admission(rig)

    await eventually(now, lambda numbers: numbers == (running, queued))


async def blocked(rig: Rig) -> Callable[[], Awaitable[None]]:
    """Take the one place with a turn that is not answered; what is returned ends it."""
    session = await rig.client.create_session(new_session())
    worker = rig.worker_of(session)
    worker.faults.append("hang")
    worker.requests.clear()
    turn = asyncio.create_task(rig.client.turn(session.id, RED))

    async def sent() -> bool:
        return len(worker.requests) == 1

    await eventually(sent)
    assert in_admission(rig) == (1, 0)

    async def go_on() -> None:
        await rig.client.release(session.id)
        with pytest.raises(SessionClosed):
            await turn

    return go_on


async def queued(rig: Rig, session: Session, **fields) -> asyncio.Task[TurnResult]:
    before = in_admission(rig)[1]
    turn = asyncio.create_task(rig.client.turn(session.id, RED, epoch=0, **fields))
    await reaches(rig, 1, before + 1)
    return turn


async def told(rig: Rig, session: Session) -> list[str]:
    return [kind for kind in await rig.types(session.id) if kind.startswith("turn.")]


async def test_a_turn_that_waits_is_shown_as_running_and_told(narrow: Rig):
    go_on = await blocked(narrow)
    session = await narrow.client.create_session(new_session())
    turn = await queued(narrow, session)
    await eventually(lambda: narrow.client.session(session.id), lambda s: s.status == "running")
    assert await told(narrow, session) == ["turn.queued"]
    assert len(narrow.workers[0].requests) == 1
    await asyncio.sleep(0.1)
    await go_on()
    result = await turn
    assert result.timings.queue_ms >= 100
    assert result.timings.total_ms >= result.timings.queue_ms + result.timings.program_ms
    assert await told(narrow, session) == ["turn.queued", "turn.started", "turn.completed"]
    after = await narrow.client.turn(session.id, BLUE, epoch=1)
    assert after.timings.queue_ms < 100
    assert (await told(narrow, session))[3:] == ["turn.started", "turn.completed"]
    assert in_admission(narrow) == (0, 0)


async def test_a_repeat_joins_a_turn_that_waits_and_another_one_is_refused(narrow: Rig):
    go_on = await blocked(narrow)
    session = await narrow.client.create_session(new_session())
    turn = await queued(narrow, session)
    repeat = asyncio.create_task(narrow.client.turn(session.id, RED, epoch=0))
    with pytest.raises(TurnInProgress):
        await narrow.client.turn(session.id, BLUE, epoch=0)
    with pytest.raises(StaleEpoch):
        await narrow.client.turn(session.id, RED, epoch=1)
    assert in_admission(narrow) == (1, 1)
    await go_on()
    assert await repeat == (await turn).model_copy(update={"replayed": True})
    assert len(narrow.workers[0].requests) == 2


async def test_what_finds_no_room_is_refused_without_a_trace(narrow: Rig):
    go_on = await blocked(narrow)
    sessions = [await narrow.client.create_session(new_session()) for _ in range(4)]
    turns = [await queued(narrow, session) for session in sessions[:3]]
    refused = sessions[3]
    before = await narrow.client.session(refused.id)
    answer = await narrow.http.post(
        f"/v1/sessions/{refused.id}/turns", files={"screenshot": b"not looked at"}
    )
    assert (answer.status_code, answer.json()["code"]) == (503, "overloaded")
    assert int(answer.headers["retry-after"]) >= 1
    assert await narrow.client.session(refused.id) == before
    assert await told(narrow, refused) == []
    await go_on()
    assert [(await turn).turn for turn in turns] == [0, 0, 0]
    assert (await narrow.client.turn(refused.id, RED)).turn == 0


async def test_a_tenants_own_limits(tmp_path: Path):
    limits = {"max_running_per_tenant": 1, "max_queued_per_tenant": 1, "auth": "keys"}
    keys = two_tenants()
    async with FakeWorker() as worker, running_rig(tmp_path, [worker], keys=keys, **limits) as rig:
        go_on = await blocked(rig)
        session, refused = [await rig.client.create_session(new_session()) for _ in range(2)]
        turn = await queued(rig, session)
        with pytest.raises(OverCapacity) as caught:
            await rig.client.turn(refused.id, RED)
        assert caught.value.retry_after >= 1
        async with RouterClient(rig.server.url, api_key=keys["other"][0]) as client:
            other = await client.create_session(new_session())
            assert (await client.turn(other.id, RED)).turn == 0  # places are left for others
        await go_on()
        assert (await turn).turn == 0


async def test_the_limits_of_a_key_come_first(tmp_path: Path):
    keys = {"root": new_key("ops", Role.ADMIN, limits=KeyLimits(running=1, queued=1))}
    async with (
        FakeWorker() as worker,
        running_rig(tmp_path, [worker], keys=keys, auth="keys", max_queued_per_tenant=9) as rig,
    ):
        go_on = await blocked(rig)
        session, refused = [await rig.client.create_session(new_session()) for _ in range(2)]
        turn = await queued(rig, session)
        with pytest.raises(OverCapacity):
            await rig.client.turn(refused.id, RED)
        await go_on()
        assert (await turn).turn == 0


def two_tenants() -> dict[str, tuple[str, ApiKey]]:
    return {"root": new_key("ops", Role.ADMIN), "other": new_key("other")}


async def test_a_crowd_does_not_hold_up_another_tenant(tmp_path: Path):
    limits = {"max_running_turns": 1, "max_queued_turns": 10, "auth": "keys"}
    keys = two_tenants()
    async with (
        FakeWorker() as worker,
        running_rig(tmp_path, [worker], keys=keys, **limits) as rig,
        RouterClient(rig.server.url, api_key=keys["other"][0]) as other,
    ):
        go_on = await blocked(rig)
        crowd = [await rig.client.create_session(new_session()) for _ in range(6)]
        order: list[str] = []

        async def ask(client: RouterClient, session: Session) -> None:
            await client.turn(session.id, RED)
            order.append("other" if client is other else "crowd")

        turns = []
        asking = [(rig.client, session) for session in crowd]
        asking.append((other, await other.create_session(new_session())))
        for number, (client, session) in enumerate(asking):
            turns.append(asyncio.create_task(ask(client, session)))
            await reaches(rig, 1, number + 1)
        await go_on()
        await asyncio.gather(*turns)
        assert order.index("other") <= 1


@pytest.mark.parametrize("how", ["release", "delete"])
async def test_the_end_of_a_session_ends_a_turn_that_waits(narrow: Rig, how: str):
    go_on = await blocked(narrow)
    session = await narrow.client.create_session(new_session())
    turn = await queued(narrow, session)
    await getattr(narrow.client, how)(session.id)
    with pytest.raises(SessionClosed):
        await turn
    await reaches(narrow, 1, 0)
    await go_on()
    assert len(narrow.workers[0].requests) == 1


async def test_a_screenshot_that_is_none_gives_its_place_back(narrow: Rig):
    session = await narrow.client.create_session(new_session())
    for _ in range(3):
        with pytest.raises(AgentServeError, match="not a PNG"):
            await narrow.client.turn(session.id, b"none")
    assert in_admission(narrow) == (0, 0)
    assert (await narrow.client.turn(session.id, RED)).turn == 0


async def test_a_stopping_router_puts_those_that_wait_back(tmp_path: Path):
    async with FakeWorker() as worker:
        async with running_rig(tmp_path, [worker], max_running_turns=1) as rig:
            await blocked(rig)
            session = await rig.client.create_session(new_session())
            turn = await queued(rig, session)
            await eventually(
                lambda: rig.client.session(session.id), lambda s: s.status == "running"
            )
        with pytest.raises(AgentServeError):
            await turn
        async with running_rig(tmp_path, [worker]) as rig:
            assert (await rig.client.session(session.id)).status == "idle"
            assert await told(rig, session) == ["turn.queued", "turn.failed"]
            assert (await rig.client.turn(session.id, RED, epoch=0)).turn == 0


async def test_the_metrics_say_what_runs_and_waits(narrow: Rig):
    go_on = await blocked(narrow)
    session = await narrow.client.create_session(new_session())
    turn = await queued(narrow, session)
    text = (await narrow.http.get("/metrics")).text
    assert 'agentserve_running_turns{kind="turns"} 1.0' in text
    assert 'agentserve_queued_turns{kind="turns"} 1.0' in text
    assert 'agentserve_queued_turns{kind="requests"} 0.0' in text
    await go_on()
    await turn
