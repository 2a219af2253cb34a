"""Workers, program hosts and routers that die: sessions live on."""

from __future__ import annotations

import asyncio
import os
import signal

import pytest

from agentserve.core.errors import HostLost, NoWorker, TurnTimeout, Unavailable, WorkerLost
from agentserve.core.sessions import SessionStatus
from agentserve.router.workers.circuit import FAILURES
from agentserve.testing.worker import FakeWorker

from .rig import eventually, new_session, picture, running_rig

RED, BLUE = picture(color=(255, 0, 0)), picture(color=(0, 0, 255))


async def test_a_worker_that_dies_during_a_turn_costs_one_retry(tmp_path):
    async with running_rig(tmp_path) as rig:
        session = await rig.client.create_session(new_session())
        await rig.client.turn(session.id, RED)
        dying = rig.worker_of(session)
        dying.faults.append("die")
        result = await rig.client.turn(session.id, BLUE, epoch=1)
        assert (result.attempts, result.turn) == (2, 1)
        assert result.worker.id != session.pin.worker_id
        after = await rig.client.session(session.id)
        assert (after.pin.worker_id, after.pin.generation) == (result.worker.id, 2)
        # what the dead one had of it was computed again, and the session says so
        assert (result.loss.reason, after.pin.loss, after.pin.moved) == (
            "moved",
            result.loss,
            "lost",
        )
        assert result.loss.expected_tokens == result.usage.stored_prefix_tokens
        assert after.usage.lost_tokens == result.usage.lost_tokens == result.loss.tokens > 0
        assert (
            'agentserve_cache_losses_total{reason="moved"} 1.0'
            in (await rig.http.get("/metrics")).text
        )
        events = await rig.events(session.id)
        kinds = [event.type.value for event in events][-4:]
        assert kinds == ["turn.started", "pin.moved", "turn.retried", "turn.completed"]
        assert events[-3].data["reason"] == "lost"
        assert events[-3].data["from"] == session.pin.worker_id
        assert events[-2].data["reason"] == "worker_lost"
        # the new worker got the whole transcript
        assert len(rig.worker_of(after).requests[-1]["image_data"]) == 2
        # nobody is sent to the dead one
        others = [await rig.client.create_session(new_session()) for _ in range(3)]
        assert {other.pin.worker_id for other in others} == {result.worker.id}


async def test_without_another_worker_the_loss_is_told_and_the_session_stays(tmp_path):
    async with FakeWorker() as worker, running_rig(tmp_path, [worker]) as rig:
        session = await rig.client.create_session(new_session())
        worker.faults.append("die")
        with pytest.raises(WorkerLost):
            await rig.client.turn(session.id, RED, epoch=0)
        after = await rig.client.session(session.id)
        assert (after.status.value, after.epoch) == ("idle", 0)
        with pytest.raises(NoWorker) as caught:
            await rig.client.turn(session.id, RED, epoch=0)
        assert caught.value.retry_after == 2
        await worker.start()
        await eventually(rig.client.ready, lambda health: health.status == "ok")
        result = await rig.client.turn(session.id, RED, epoch=0)
        assert (result.turn, result.worker.boot_id) == (0, worker.boot_id)


async def test_both_workers_dying_in_one_turn_is_an_error(tmp_path):
    async with running_rig(tmp_path) as rig:
        session = await rig.client.create_session(new_session())
        for worker in rig.workers:
            worker.faults.append("die")
        with pytest.raises(WorkerLost):
            await rig.client.turn(session.id, RED)
        assert (await rig.client.session(session.id)).status.value == "idle"


async def test_a_server_error_of_a_worker_is_retried_elsewhere(tmp_path):
    async with running_rig(tmp_path) as rig:
        session = await rig.client.create_session(new_session())
        rig.worker_of(session).faults.append("error")
        result = await rig.client.turn(session.id, RED)
        assert (result.attempts, result.worker.id != session.pin.worker_id) == (2, True)


async def test_a_restarted_worker_keeps_nobody_in_its_old_life(tmp_path):
    async with running_rig(tmp_path) as rig:
        sessions = [await rig.client.create_session(new_session()) for _ in range(8)]
        restarted = rig.worker_of(sessions[0])
        mine = [s for s in sessions if rig.worker_of(s) is restarted]
        assert len(mine) == 4
        old = restarted.boot_id
        await restarted.restart()

        async def all_moved() -> bool:
            now = [await rig.client.session(s.id) for s in mine]
            return all(s.pin.boot_id != old for s in now)

        await eventually(all_moved)
        for session in mine:
            moved = (await rig.events(session.id))[-1]
            assert moved.type.value == "pin.moved"
            assert moved.data["generation"] == 2
        reasons = {(await rig.events(s.id))[-1].data["reason"] for s in mine}
        assert reasons <= {"restarted", "down"}
        for session in sessions:
            if session not in mine:
                assert (await rig.client.session(session.id)).pin == session.pin


async def test_a_quick_restart_between_polls_is_seen_by_its_boot_id(tmp_path):
    async with (
        FakeWorker() as worker,
        running_rig(tmp_path, [worker], health_interval_s=0.3) as rig,
    ):
        session = await rig.client.create_session(new_session())
        await worker.restart()
        moved = await eventually(
            lambda: rig.client.session(session.id), lambda s: s.pin.generation == 2
        )
        assert moved.pin.boot_id == worker.boot_id
        event = (await rig.events(session.id))[-1]
        assert (event.type.value, event.data["reason"]) == ("pin.moved", "restarted")


async def test_pins_hold_while_both_workers_live(tmp_path):
    async with running_rig(tmp_path) as rig:
        sessions = [await rig.client.create_session(new_session()) for _ in range(20)]
        for _ in range(2):
            results = await asyncio.gather(*(rig.client.turn(s.id, RED) for s in sessions))
            assert [r.worker.id for r in results] == [s.pin.worker_id for s in sessions]
        for session in sessions:
            assert "pin.moved" not in await rig.types(session.id)


# program hosts


async def test_a_host_killed_between_turns_is_not_noticed(tmp_path):
    async with running_rig(tmp_path) as rig:
        session = await rig.client.create_session(new_session())
        await rig.client.turn(session.id, RED)
        (pid,) = rig.services.hosts.pids
        os.kill(pid, signal.SIGKILL)
        result = await rig.client.turn(session.id, BLUE, epoch=1)
        assert result.turn == 1
        assert pid not in rig.services.hosts.pids
        assert "turn.failed" not in await rig.types(session.id)


async def test_a_host_killed_during_a_turn_costs_one_retry(tmp_path):
    async with running_rig(tmp_path) as rig:
        session = await rig.client.create_session(new_session())
        result = await rig.client.turn(session.id, RED, instruction="!die_once")
        assert (result.attempts, result.worker.id) == (2, session.pin.worker_id)
        assert (await rig.types(session.id))[-3:] == [
            "turn.started",
            "turn.retried",
            "turn.completed",
        ]
        metrics = (await rig.http.get("/metrics")).text
        assert 'agentserve_turn_retries_total{reason="host_lost"} 1.0' in metrics


async def test_a_program_that_always_kills_its_host_is_an_error(tmp_path):
    async with running_rig(tmp_path) as rig:
        session = await rig.client.create_session(new_session())
        with pytest.raises(HostLost):
            await rig.client.turn(session.id, RED, instruction="!die", epoch=0)
        assert (await rig.client.turn(session.id, RED, epoch=0)).turn == 0


async def test_a_hanging_host_is_replaced(tmp_path, monkeypatch):
    monkeypatch.setattr("agentserve.router.hosts.GRACE_S", 0.2)
    async with running_rig(tmp_path, turn_timeout_s=0.3) as rig:
        session = await rig.client.create_session(new_session())
        (pid,) = rig.services.hosts.pids
        with pytest.raises(TurnTimeout):
            await rig.client.turn(session.id, RED, instruction="!hang", epoch=0)
        assert (await rig.client.session(session.id)).epoch == 0

        async def replaced() -> bool:
            return rig.services.hosts.ready == 1 and rig.services.hosts.pids != [pid]

        await eventually(replaced)


async def test_a_slow_worker_is_a_timeout_and_no_loss(tmp_path):
    async with running_rig(tmp_path, turn_timeout_s=0.4) as rig:
        session = await rig.client.create_session(new_session())
        rig.worker_of(session).faults.append("hang")
        with pytest.raises(TurnTimeout):
            await rig.client.turn(session.id, RED)
        after = await rig.client.session(session.id)
        assert (after.status.value, after.pin.generation) == ("idle", 1)


# the router itself


async def test_a_router_restart_forgets_nothing(tmp_path):
    async with FakeWorker() as one, FakeWorker() as two:
        async with running_rig(tmp_path, [one, two]) as rig:
            session = await rig.client.create_session(new_session())
            first = await rig.client.turn(session.id, RED, epoch=0)
            before = await rig.client.session(session.id)
            events = await rig.events(session.id)
        async with running_rig(tmp_path, [one, two]) as rig:
            assert await rig.client.session(session.id) == before
            assert await rig.events(session.id) == events
            again = await rig.client.turn(session.id, RED, epoch=0)
            assert again == first.model_copy(update={"replayed": True})
            second = await rig.client.turn(session.id, BLUE, epoch=1)
            assert second.worker == first.worker
            held = first.usage.prompt_tokens + first.usage.completion_tokens
            assert second.usage.stored_prefix_tokens == held
            assert second.usage.cached_tokens >= held


async def test_a_turn_that_a_crash_cut_off_can_be_asked_again(tmp_path):
    async with FakeWorker() as worker:
        async with running_rig(tmp_path, [worker]) as rig:
            session = await rig.client.create_session(new_session())
            record = await rig.services.sessions.get(session.id)
            # what a crash leaves: the session is marked running and nobody runs it
            await rig.services.events.update(record.with_session(status=SessionStatus.RUNNING))
        async with running_rig(tmp_path, [worker]) as rig:
            assert (await rig.client.session(session.id)).status.value == "idle"
            last = (await rig.events(session.id))[-1]
            assert (last.type.value, last.data) == ("turn.failed", {"code": "router_lost"})
            assert (await rig.client.turn(session.id, RED, epoch=0)).turn == 0


async def test_a_worker_that_is_no_longer_configured_is_left(tmp_path):
    async with FakeWorker() as one, FakeWorker() as two:
        async with running_rig(tmp_path, [one]) as rig:
            session = await rig.client.create_session(new_session())
        async with running_rig(tmp_path, [two]) as rig:
            result = await rig.client.turn(session.id, RED)
            assert result.worker.boot_id == two.boot_id
            moved = [e for e in await rig.events(session.id) if e.type.value == "pin.moved"]
            assert [event.data["reason"] for event in moved] == ["gone"]


async def test_shutdown_ends_running_turns_and_leaves_them_idle(tmp_path):
    async with FakeWorker() as worker:
        async with running_rig(tmp_path, [worker]) as rig:
            session = await rig.client.create_session(new_session())
            turn = asyncio.create_task(rig.client.turn(session.id, RED, instruction="!hang"))
            await eventually(
                lambda: rig.client.session(session.id), lambda s: s.status.value == "running"
            )
        with pytest.raises(Unavailable):
            await turn
        async with running_rig(tmp_path, [worker]) as rig:
            assert (await rig.client.session(session.id)).status.value == "idle"
            assert (await rig.types(session.id))[-1] == "turn.failed"


async def test_a_worker_that_fails_everything_rests_though_it_is_healthy(tmp_path):
    async with running_rig(tmp_path) as rig:
        failing, other = rig.workers
        failing.faults.extend(["error"] * FAILURES)
        for n in range(40):  # until the name of a request is one that goes there
            name = {"X-Session-Id": f"steady-{n}"}
            answer = await rig.http.post("/generate", json={"text": "t"}, headers=name)
            if answer.status_code == 500:
                break
        for _ in range(FAILURES - 1):
            answer = await rig.http.post("/generate", json={"text": "t"}, headers=name)
            assert answer.status_code == 500
        listed = {w.url: w for w in (await rig.client.workers()).workers}
        assert listed[failing.url].state.value == "down"
        assert "requests in a row failed" in listed[failing.url].reason
        answer = await rig.http.post("/generate", json={"text": "t"}, headers=name)
        assert answer.status_code == 200
        assert len(other.requests) >= 1


async def test_forty_bad_requests_then_six_good_ones(tmp_path):
    """What others' routers count against their workers, until nobody is served any more."""
    async with running_rig(tmp_path) as rig:
        for worker in rig.workers:
            worker.faults.extend(["refuse"] * 40)
        refused = [await rig.http.post("/generate", json={"text": "bad"}) for _ in range(40)]
        assert {answer.status_code for answer in refused} == {400}
        for worker in rig.workers:
            worker.faults.clear()
        good = [await rig.http.post("/generate", json={"text": "good"}) for _ in range(6)]
        assert [answer.status_code for answer in good] == [200] * 6
