"""Health, refusals and what ``/v1/workers`` shows."""

from __future__ import annotations

import pytest

from agentserve.core.errors import NoWorker
from agentserve.router.workers.registry import worker_id
from agentserve.testing.worker import FakeWorker

from .rig import Rig, eventually, new_session, running_rig


async def only(rig: Rig):
    (worker,) = (await rig.client.workers()).workers
    return worker


async def test_ready_workers_show_their_report(rig: Rig):
    listed = (await rig.client.workers()).workers
    assert [worker.url for worker in listed] == [fake.url for fake in rig.workers]
    for worker, fake in zip(listed, rig.workers, strict=True):
        assert (worker.id, worker.state.value) == (worker_id(fake.url), "ready")
        assert (worker.boot_id, worker.report) == (fake.boot_id, fake.report())


@pytest.mark.parametrize(
    ("fake", "reason"),
    [
        ({"version": "0.0.1"}, "its plugin is 0.0.1, this router is"),
        ({"plugin": False}, "no agentserve plugin"),
    ],
)
async def test_workers_that_do_not_fit_are_refused(tmp_path, fake, reason):
    async with FakeWorker(**fake) as worker, running_rig(tmp_path, [worker]) as rig:
        listed = await only(rig)
        assert listed.state.value == "refused"
        assert reason in listed.reason
        with pytest.raises(NoWorker, match="no worker is ready") as caught:
            await rig.client.create_session(new_session())
        assert reason in caught.value.hint
        health = await rig.client.ready()
        assert (health.status, health.workers_ready) == ("unavailable", 0)
        assert (await rig.http.post("/generate", json={"text": "a"})).status_code == 503


async def test_a_worker_goes_down_and_comes_back(tmp_path):
    async with FakeWorker() as worker, running_rig(tmp_path, [worker]) as rig:
        assert (await rig.http.get("/ready")).status_code == 200
        await worker.kill()
        await eventually(lambda: only(rig), lambda w: w.state.value == "down")
        unready = await rig.http.get("/ready")
        assert (unready.status_code, unready.json()["status"]) == (503, "unavailable")
        assert unready.headers["retry-after"] == "1"
        assert (await rig.http.get("/health")).status_code == 200
        await worker.start()
        back = await eventually(lambda: only(rig), lambda w: w.state.value == "ready")
        assert back.boot_id == worker.boot_id


async def test_a_worker_that_warms_up_is_starting_until_it_is_healthy(tmp_path):
    worker = FakeWorker()
    worker.starting = True
    async with worker, running_rig(tmp_path, [], workers=(worker.url,)) as rig:
        starting = await eventually(lambda: only(rig), lambda w: "/health" in w.reason)
        assert starting.state.value == "starting"
        worker.starting = False
        await eventually(lambda: only(rig), lambda w: w.state.value == "ready")


async def test_one_failed_check_is_no_death(tmp_path):
    async with FakeWorker() as worker, running_rig(tmp_path, [worker], health_failures=100) as rig:
        session = await rig.client.create_session(new_session())
        await worker.kill()
        await worker.start()  # in a new life, before the router calls it down
        moved = await eventually(
            lambda: rig.client.session(session.id), lambda s: s.pin.generation == 2
        )
        assert moved.pin.boot_id == worker.boot_id
        assert (await rig.events(session.id))[-1].data["reason"] == "restarted"


async def test_pins_are_counted_while_sessions_are_open(tmp_path):
    async with FakeWorker() as worker, running_rig(tmp_path, [worker]) as rig:
        sessions = [await rig.client.create_session(new_session()) for _ in range(3)]
        assert (await only(rig)).sessions == 3
        await rig.client.release(sessions[0].id)
        await rig.client.delete(sessions[1].id)
        assert (await only(rig)).sessions == 1
