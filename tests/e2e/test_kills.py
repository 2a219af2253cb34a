"""kill -9 of every part: no session is lost."""

from __future__ import annotations

import asyncio
import time

import pytest
from e2e.helpers import kill_worker, navigator, on_both, screen

from agentserve.cli.stack import Stack
from agentserve.client import RouterClient
from agentserve.core.events import EventType


async def test_the_program_host_dies_between_turns(
    stack: Stack, router: RouterClient, host_processes
) -> None:
    session = await router.create_session(navigator())
    await router.turn(session.id, screen(session.space.model), epoch=0)
    for process in host_processes():
        process.kill()
    result = await router.turn(session.id, screen(session.space.model), epoch=1)
    assert result.usage.cached_tokens >= result.usage.stored_prefix_tokens > 0
    assert (await router.session(session.id)).epoch == 2


async def test_the_program_host_dies_during_turns(router: RouterClient, host_processes) -> None:
    sessions = [await router.create_session(navigator(f"Host task {i}.")) for i in range(4)]
    turns = [
        asyncio.ensure_future(router.turn(s.id, screen(s.space.model), epoch=0)) for s in sessions
    ]
    while [(await router.session(s.id)).status for s in sessions] != ["running"] * 4:
        pass  # each look takes a request's time
    (host,) = host_processes()
    host.kill()
    results = await asyncio.gather(*turns)
    assert [result.epoch for result in results] == [0] * 4
    assert max(result.attempts for result in results) == 2
    for session in sessions:
        result = await router.turn(session.id, screen(session.space.model), epoch=1)
        assert result.epoch == 1


async def test_a_worker_dies_and_its_sessions_go_on(
    mend_stack: Stack, router: RouterClient
) -> None:
    sessions = await on_both(router, 3)
    before = {}
    for session in sessions:
        result = await router.turn(session.id, screen(session.space.model), epoch=0)
        before[session.id] = result.worker.id
    assert len(set(before.values())) == 2
    workers = {worker.url: worker.id for worker in (await router.workers()).workers}
    victim = workers[mend_stack.workers[1]]
    turns = [
        asyncio.ensure_future(router.turn(s.id, screen(s.space.model), epoch=1)) for s in sessions
    ]
    await asyncio.sleep(0.3)
    kill_worker(mend_stack.children["worker-1"].process.pid)
    results = await asyncio.gather(*turns)
    for result in results:
        follow = await router.turn(result.session_id, screen(sessions[0].space.model), epoch=2)
        assert follow.worker.id != victim
        session = await router.session(result.session_id)
        assert session.epoch == 3
        moved = before[result.session_id] == victim
        assert session.pin.generation == (2 if moved else 1)
        events = (await router.events(result.session_id)).events
        assert (EventType.PIN_MOVED in [event.type for event in events]) == moved


async def test_a_restarted_worker_is_cold(mend_stack: Stack, router: RouterClient) -> None:
    sessions = await on_both(router, 2)
    for session in sessions:
        await router.turn(session.id, screen(session.space.model), epoch=0)
    pins = {session.id: (await router.session(session.id)).pin for session in sessions}
    old = {w.url: w for w in (await router.workers()).workers}[mend_stack.workers[1]]
    assert old.id in {pin.worker_id for pin in pins.values()}
    kill_worker(mend_stack.children["worker-1"].process.pid)
    await mend_stack.restart("worker-1")
    deadline = time.monotonic() + 240
    while time.monotonic() < deadline:
        new = {w.url: w for w in (await router.workers()).workers}[mend_stack.workers[1]]
        if new.state == "ready" and new.report.boot_id != old.report.boot_id:
            break
        await asyncio.sleep(0.5)
    else:
        pytest.fail("the restarted worker did not come back")
    for session in sessions:
        pin = pins[session.id]
        result = await router.turn(session.id, screen(session.space.model), epoch=1)
        current = (await router.session(session.id)).pin
        if pin.worker_id == old.id:
            assert current.generation == 2
            assert current.boot_id != pin.boot_id
            assert result.loss.reason in ("restarted", "moved")
            assert current.loss == result.loss
            assert result.usage.cached_tokens < result.usage.stored_prefix_tokens
        else:
            assert current.worker_id == pin.worker_id
            assert current.generation == 1
