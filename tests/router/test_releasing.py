"""Sessions that are over: their workers are told, and nobody waits for that."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest

from agentserve.core.errors import SessionClosed
from agentserve.core.sessions import Session
from agentserve.router.reaper import REAP_EVERY_S
from agentserve.router.releasing import BATCH
from agentserve.testing.worker import FakeWorker

from .rig import Rig, eventually, new_session, picture, running_rig

RED, BLUE, GREEN = (picture(color=color) for color in ((255, 0, 0), (0, 0, 255), (0, 255, 0)))


def told(worker: FakeWorker) -> list[str]:
    """The sessions that a worker was told of, each as often as it was."""
    return [one["id"] for body in worker.released for one in body["sessions"]]


async def told_of(worker: FakeWorker, *sessions: Session) -> list[str]:
    async def ids() -> list[str]:
        return told(worker)

    wanted = {session.id for session in sessions}
    return await eventually(ids, lambda seen: wanted <= set(seen))


async def started(rig: Rig, turns: int = 1, **changes: Any) -> Session:
    session = await rig.client.create_session(new_session(**changes))
    for turn in range(turns):
        await rig.client.turn(session.id, (RED, BLUE, GREEN)[turn])
    return session


async def freed(rig: Rig, worker_id: str) -> float:
    name = f'agentserve_worker_released_tokens_total{{worker="{worker_id}"}} '
    lines = (await rig.http.get("/metrics")).text.splitlines()
    return sum(float(line.removeprefix(name)) for line in lines if line.startswith(name))


async def test_a_released_session_leaves_its_worker_alone_those_of_others_stay(tmp_path):
    async with FakeWorker() as worker, running_rig(tmp_path, [worker]) as rig:
        mine, other = await started(rig), await started(rig, task="another task")
        await rig.client.release(mine.id)
        assert await told_of(worker, mine) == [mine.id]
        assert await eventually(lambda: freed(rig, mine.pin.worker_id)) > 0
        assert (await rig.client.turn(other.id, BLUE)).loss is None
        # nothing is left of the first one
        (ended,) = [body for body in worker.requests if body["session_id"] == mine.id]
        again = {"input_ids": ended["input_ids"], "image_data": ended["image_data"]}
        answer = (await rig.http.post("/generate", json=again)).json()
        assert answer["meta_info"]["cached_tokens"] < 10
        await rig.client.release(mine.id)  # changes nothing
        await rig.client.release(other.id)
        assert await told_of(worker, other) == [mine.id, other.id]


async def test_a_deleted_and_an_expired_one(tmp_path):
    async with FakeWorker() as worker, running_rig(tmp_path, [worker]) as rig:
        deleted, expired = await started(rig), await started(rig, inactivity_timeout_s=0.2)
        assert (await rig.http.delete(f"/v1/sessions/{deleted.id}")).status_code == 204
        assert sorted(await told_of(worker, deleted, expired)) == sorted([deleted.id, expired.id])
        assert (await rig.client.session(expired.id)).status == "expired"


async def test_many_at_once_are_few_messages(tmp_path):
    async with FakeWorker() as worker, running_rig(tmp_path, [worker]) as rig:
        made = [await rig.client.create_session(new_session()) for _ in range(BATCH + 20)]
        worker.release_delay_s = 0.5
        answer = await rig.http.post("/v1/sessions/release", json={"all": True})
        assert answer.json()["released"] == len(made)
        seen = await told_of(worker, *made)
        assert sorted(seen) == sorted(session.id for session in made)
        assert len(worker.released) <= 4
        assert max(len(body["sessions"]) for body in worker.released) <= BATCH


async def test_a_worker_that_does_not_answer_delays_nobody(tmp_path):
    async with FakeWorker() as worker, running_rig(tmp_path, [worker]) as rig:
        worker.release_delay_s = None
        first, second = await started(rig), await started(rig)
        begun = time.monotonic()
        for session in (first, second):
            assert (await rig.client.release(session.id)).status == "released"
        await told_of(worker, first)
        assert (await started(rig)).status == "idle"
        assert time.monotonic() - begun < 10
        (listed,) = (await rig.client.workers()).workers
        assert listed.state == "ready"


async def test_a_turn_that_runs_ends_first(tmp_path):
    async with FakeWorker() as worker, running_rig(tmp_path, [worker]) as rig:
        session = await started(rig)
        worker.faults.append("hang")
        running = asyncio.create_task(rig.client.turn(session.id, BLUE))
        await eventually(lambda: _requests(worker), lambda count: count == 2)
        await rig.client.release(session.id)
        with pytest.raises(SessionClosed):
            await running
        assert await told_of(worker, session) == [session.id]
        assert len(worker.aborted) == 1


async def test_a_deleted_one_whose_turn_runs(tmp_path):
    async with FakeWorker() as worker, running_rig(tmp_path, [worker]) as rig:
        session = await started(rig)
        worker.faults.append("hang")
        running = asyncio.create_task(rig.client.turn(session.id, BLUE))
        await eventually(lambda: _requests(worker), lambda count: count == 2)
        await rig.http.delete(f"/v1/sessions/{session.id}")
        assert await told_of(worker, session) == [session.id]
        assert isinstance((await asyncio.gather(running, return_exceptions=True))[0], Exception)


async def test_where_a_drained_session_was(tmp_path):
    async with running_rig(tmp_path) as rig:
        session = await started(rig, 2)
        before = rig.worker_of(session)
        await rig.http.post(f"/v1/workers/{session.pin.worker_id}/drain")
        assert await told_of(before, session) == [session.id]
        moved = await rig.client.session(session.id)
        after = rig.worker_of(moved)
        assert after is not before
        assert (await rig.client.turn(session.id, GREEN)).loss is None
        await rig.client.release(session.id)
        assert await told_of(after, session) == [session.id]
        assert told(before) == [session.id]


async def test_another_life_of_the_worker_is_not_told(tmp_path):
    async with FakeWorker() as worker, running_rig(tmp_path, [worker]) as rig:
        session = await started(rig)
        await worker.restart()
        life = worker.boot_id

        async def boot() -> str:
            return (await rig.client.workers()).workers[0].boot_id

        await eventually(boot, lambda seen: seen == life)
        await eventually(lambda: rig.client.session(session.id), lambda s: s.pin.boot_id == life)
        last = await started(rig)
        await rig.client.release(last.id)
        assert await told_of(worker, last) == [last.id]  # and of the move nothing


async def test_a_worker_that_does_not_offer_it_is_not_asked(tmp_path):
    async with (
        FakeWorker(releases=False) as worker,
        running_rig(tmp_path, [worker]) as rig,
    ):
        session = await started(rig)
        await rig.client.release(session.id)
        await asyncio.sleep(REAP_EVERY_S / 5)
        assert worker.released == []


async def test_a_fork_that_has_not_run_yet_finds_its_beginning(tmp_path):
    async with FakeWorker() as worker, running_rig(tmp_path, [worker]) as rig:
        parent = await started(rig, 2)
        fork = await rig.client.create_session(new_session(parent=parent.id))
        await rig.client.turn(parent.id, GREEN)
        await rig.client.release(parent.id)
        await told_of(worker, parent)
        ((one,),) = (body["sessions"] for body in worker.released)
        assert one["forked"] == fork.pin.expected_cached_tokens > 0
        result = await rig.client.turn(fork.id, BLUE)
        assert result.loss is None
        await rig.client.release(fork.id)
        await told_of(worker, fork)
        assert worker.released[-1]["sessions"][0]["forked"] == 0


async def test_what_a_surface_s_sessions_begin_with_stays(tmp_path):
    async with FakeWorker() as worker, running_rig(tmp_path, [worker]) as rig:
        mosaic = new_session(policy="mosaic", surface="origin", vision_context="cell")

        async def kept() -> int:
            """Of one more session, which shows the same screen twice."""
            session = await rig.client.create_session(mosaic)
            for _ in range(2):
                await rig.client.turn(session.id, RED)
            await rig.client.release(session.id)
            await told_of(worker, session)
            return worker.released[-1]["sessions"][0]["keep"]

        assert await kept() == 0
        # until it is known what their screens have in common
        assert await eventually(kept) > 0


async def test_the_text_that_sessions_of_a_program_begin_with_stays(tmp_path):
    async with FakeWorker() as worker, running_rig(tmp_path, [worker]) as rig:
        kept = []
        for task in ("find the cat", "find the dog", "find a hat"):
            session = await started(rig, task=task)
            await rig.client.release(session.id)
            await told_of(worker, session)
            kept.append(worker.released[-1]["sessions"][0]["keep"])
        assert kept[0] == 0 < kept[2] < kept[1]


async def test_clients_cannot_reach_it(rig: Rig):
    answer = await rig.http.post("/agentserve/release", json={"sessions": [{"id": "s_1"}]})
    assert answer.status_code == 404


async def _requests(worker: FakeWorker) -> int:
    return len(worker.requests)
