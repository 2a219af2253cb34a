"""Drains: what is moved is warm before, what runs finishes, nothing is lost."""

from __future__ import annotations

import asyncio

import httpx
import pytest

from agentserve.core.errors import NoWorker, UnknownWorker
from agentserve.core.sessions import Session
from agentserve.core.workers import Drain, Worker
from agentserve.testing.worker import FakeWorker

from .rig import Rig, eventually, new_session, picture, running_rig

RED, BLUE, GREEN = (picture(color=color) for color in ((255, 0, 0), (0, 0, 255), (0, 255, 0)))


async def drained(rig: Rig, worker_id: str) -> Drain:
    async def progress() -> Drain:
        return Drain.model_validate((await rig.http.get(f"/v1/workers/{worker_id}/drain")).json())

    return await eventually(progress, lambda drain: drain.done)


async def start(rig: Rig, worker_id: str) -> Worker:
    answer = await rig.http.post(f"/v1/workers/{worker_id}/drain")
    assert answer.status_code == 202
    return Worker.model_validate(answer.json())


async def sessions_on(rig: Rig, count: int) -> tuple[str, list[Session], list[Session]]:
    """A worker's id, its sessions, and those of the others; each has had a turn."""
    made = [await rig.client.create_session(new_session()) for _ in range(count)]
    for session in made:
        await rig.client.turn(session.id, RED)
    worker_id = made[0].pin.worker_id
    mine = [session for session in made if session.pin.worker_id == worker_id]
    return worker_id, mine, [session for session in made if session not in mine]


async def test_idle_sessions_are_computed_elsewhere_and_then_moved(tmp_path):
    async with running_rig(tmp_path) as rig:
        worker_id, mine, others = await sessions_on(rig, 8)
        told = await start(rig, worker_id)
        assert told.drain is not None
        drain = await drained(rig, worker_id)
        assert (drain.left, drain.moved, drain.reason) == (0, len(mine), "")
        for before in mine:
            after = await rig.client.session(before.id)
            assert after.pin.worker_id != worker_id
            assert (after.pin.generation, after.pin.moved) == (2, "drained")
            moved = (await rig.events(before.id))[-1]
            assert (moved.type.value, moved.data["reason"]) == ("pin.moved", "drained")
            result = await rig.client.turn(before.id, BLUE)
            # all of it was there before the session came
            assert result.usage.cached_tokens >= result.usage.stored_prefix_tokens > 0
            assert result.loss is None
        assert drain.warmed_tokens > 0
        for other in others:
            assert (await rig.client.session(other.id)).pin.generation == 1


async def test_a_drained_worker_gets_nobody_until_it_is_undone(tmp_path):
    async with running_rig(tmp_path) as rig:
        worker_id, _, _ = await sessions_on(rig, 2)
        await start(rig, worker_id)
        await drained(rig, worker_id)
        made = [await rig.client.create_session(new_session()) for _ in range(4)]
        assert worker_id not in {session.pin.worker_id for session in made}
        for n in range(8):
            answer = await rig.http.post(
                "/generate", json={"text": "t"}, headers={"x-session-id": f"name-{n}"}
            )
            assert answer.headers["x-agentserve-worker"] != worker_id
        undone = await rig.http.delete(f"/v1/workers/{worker_id}/drain")
        assert Worker.model_validate(undone.json()).drain is None
        made = [await rig.client.create_session(new_session()) for _ in range(4)]
        assert worker_id in {session.pin.worker_id for session in made}
        assert (await rig.http.get(f"/v1/workers/{worker_id}/drain")).json() is None


async def test_a_running_turn_finishes_where_it_runs(tmp_path):
    async with running_rig(tmp_path) as rig:
        session = await rig.client.create_session(new_session())
        await rig.client.turn(session.id, RED)
        here = rig.worker_of(session)
        here.delay_s = 0.6
        running = asyncio.create_task(rig.client.turn(session.id, BLUE))
        await eventually(lambda: rig.client.session(session.id), lambda s: s.status == "running")
        await start(rig, session.pin.worker_id)
        result = await running
        assert (result.worker.id, result.attempts) == (session.pin.worker_id, 1)
        drain = await drained(rig, session.pin.worker_id)
        assert drain.moved == 1
        third = await rig.client.turn(session.id, GREEN)
        assert third.worker.id != session.pin.worker_id
        assert third.loss is None


async def test_without_another_worker_sessions_stay_and_are_served(tmp_path):
    async with FakeWorker() as worker, running_rig(tmp_path, [worker]) as rig:
        worker_id, (session,), _ = await sessions_on(rig, 1)
        await start(rig, worker_id)

        async def progress() -> Drain:
            answer = await rig.http.get(f"/v1/workers/{worker_id}/drain")
            return Drain.model_validate(answer.json())

        drain = await eventually(progress, lambda drain: bool(drain.reason))
        assert (drain.left, drain.done) == (1, False)
        assert "no worker is ready" in drain.reason
        assert (await rig.client.turn(session.id, BLUE)).worker.id == worker_id
        with pytest.raises(NoWorker):
            await rig.client.create_session(new_session())
        answer = await rig.http.post("/generate", json={"text": "t"})
        assert answer.status_code == 200


async def test_progress_is_streamed(tmp_path):
    async with running_rig(tmp_path) as rig:
        worker_id, mine, _ = await sessions_on(rig, 6)
        await start(rig, worker_id)
        lines = []
        async with rig.http.stream(
            "GET", f"/v1/workers/{worker_id}/drain", headers={"accept": "text/event-stream"}
        ) as stream:
            async for line in stream.aiter_lines():
                if line.startswith("data:"):
                    lines.append(Drain.model_validate_json(line[5:]))
        assert lines[-1].done and lines[-1].moved == len(mine)
        assert [drain.moved for drain in lines] == sorted(drain.moved for drain in lines)


async def test_a_worker_that_dies_while_it_is_drained(tmp_path):
    async with running_rig(tmp_path) as rig:
        worker_id, mine, _ = await sessions_on(rig, 4)
        target = next(worker for worker in rig.workers if worker is not rig.worker_of(mine[0]))
        target.delay_s = 0.3
        await start(rig, worker_id)
        await rig.worker_of(mine[0]).kill()
        assert (await drained(rig, worker_id)).left == 0
        for session in mine:
            assert (await rig.client.turn(session.id, BLUE)).worker.id != worker_id


@pytest.mark.parametrize("method", ["GET", "POST", "DELETE"])
async def test_no_such_worker(rig: Rig, method: str):
    answer: httpx.Response = await rig.http.request(method, "/v1/workers/w-nobody/drain")
    assert (answer.status_code, answer.json()["code"]) == (404, UnknownWorker.code)
