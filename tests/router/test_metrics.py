"""What the metrics say while things happen. Their names: test_ops, and the README."""

from __future__ import annotations

import asyncio
import re
import time

import pytest

from agentserve.core.errors import StorageFailed
from agentserve.router.lag import watch_lag
from agentserve.router.metrics import Metrics
from agentserve.router.workers.registry import worker_id
from agentserve.testing.worker import FakeWorker

from .redis_server import RedisServer
from .rig import Rig, eventually, new_session, picture, running_rig

RUNNING = 'agentserve_running_turns{kind="turns"}'
PROMPT = {"text": "hello", "sampling_params": {"max_new_tokens": 4}}


async def values(rig: Rig) -> dict[str, float]:
    """Every sample's value, by its name and labels as they are written."""
    return read((await rig.http.get("/metrics")).text)


def read(text: str) -> dict[str, float]:
    found = re.findall(r"^((?:agentserve|process)_\w+(?:{[^}]*})?) (\S+)$", text, re.M)
    return {sample: float(value) for sample, value in found}


async def test_a_turn_is_counted_by_its_phases(tmp_path):
    async with running_rig(tmp_path) as rig:
        session = await rig.client.create_session(new_session())
        asking = asyncio.create_task(
            rig.client.turn(session.id, picture(), instruction="!sleep 0.3")
        )
        await eventually(lambda: values(rig), lambda found: found[RUNNING] == 1)
        await asking
        found = await values(rig)
        assert found[RUNNING] == 0
        took = {
            phase: found[f'agentserve_turn_phase_seconds_sum{{phase="{phase}"}}']
            for phase in ("decode", "wait", "plan", "program", "store")
        }
        assert took["program"] >= 0.3
        assert all(seconds > 0 for seconds in took.values())


async def test_what_is_stored_is_counted_as_new_or_known(tmp_path):
    async with running_rig(tmp_path) as rig:
        session = await rig.client.create_session(new_session())
        counted = []
        for _ in range(2):
            await rig.client.turn(session.id, picture())
            found = await values(rig)
            stored, known = (
                found[f'agentserve_blob_bytes_total{{outcome="{outcome}"}}']
                for outcome in ("stored", "known")
            )
            counted.append((stored, known))
        (first, _), (after, again) = counted
        assert 0 < first == after <= again
        assert found["agentserve_blobs_expired_total"] == 0


async def test_workers_are_shown_while_they_are_there(tmp_path):
    list_of_workers = tmp_path / "workers"
    async with FakeWorker() as stays, FakeWorker() as goes:
        list_of_workers.write_text(f"{stays.url}\n{goes.url}\n")
        async with running_rig(
            tmp_path / "data", [stays, goes], workers=(), workers_file=list_of_workers
        ) as rig:
            session = await rig.client.create_session(new_session())
            await rig.client.turn(session.id, picture())
            pin = (await rig.client.session(session.id)).pin
            found = await values(rig)
            assert found[f'agentserve_worker_sessions{{worker="{pin.worker_id}"}}'] == 1
            held = found[f'agentserve_worker_held_tokens{{worker="{pin.worker_id}"}}']
            assert held == pin.held_tokens > 0
            for fake in (stays, goes):
                name, address = worker_id(fake.url), fake.url.removeprefix("http://")
                info = f'{{address="{address}",model="fake-vl",worker="{name}"}}'
                assert found["agentserve_worker_info" + info] == 1
                assert found[f'agentserve_worker_state{{state="ready",worker="{name}"}}'] == 1
                assert found[f'agentserve_worker_state{{state="down",worker="{name}"}}'] == 0
                capacity = found[f'agentserve_worker_capacity_tokens{{worker="{name}"}}']
                assert capacity == 4 * 32_768

            gone = worker_id(goes.url)
            list_of_workers.write_text(f"{stays.url}\n")
            await eventually(lambda: values(rig), lambda found: not any(gone in s for s in found))


async def test_a_drain_is_shown_until_it_is_undone(tmp_path):
    async with running_rig(tmp_path) as rig:
        session = await rig.client.create_session(new_session())
        await rig.client.turn(session.id, picture())
        worker = session.pin.worker_id
        await rig.client.drain(worker)

        def moved(found: dict[str, float]) -> bool:
            return found.get(f'agentserve_worker_drain_moved{{worker="{worker}"}}') == 1

        found = await eventually(lambda: values(rig), moved)
        assert found[f'agentserve_worker_drain_left{{worker="{worker}"}}'] == 0
        assert found[f'agentserve_worker_drain_warmed_tokens{{worker="{worker}"}}'] > 0
        await rig.client.undrain(worker)
        assert not any("drain" in sample for sample in await values(rig) if worker in sample)


async def test_a_worker_that_rests_is_shown(tmp_path):
    async with FakeWorker() as worker, running_rig(tmp_path, [worker]) as rig:
        worker.faults += ["error"] * 5
        for _ in range(5):
            assert (await rig.http.post("/generate", json=PROMPT)).status_code == 500
        name = worker_id(worker.url)
        found = await values(rig)
        assert found[f'agentserve_worker_resting{{worker="{name}"}}'] == 1
        assert (await rig.client.workers()).workers[0].resting


async def test_the_pass_through_is_counted_by_outcome(tmp_path):
    async with FakeWorker() as worker, running_rig(tmp_path, [worker]) as rig:

        async def outcome(name: str) -> float:
            sample = f'agentserve_pass_requests_total{{outcome="{name}"}}'
            return (await values(rig)).get(sample, 0.0)

        worker.faults += ["refuse", "error"]
        for _ in range(3):
            await rig.http.post("/generate", json=PROMPT)
        worker.faults.append("hang")
        asking = asyncio.create_task(rig.http.post("/generate", json=PROMPT))
        await eventually(lambda: _asked(worker), lambda count: count == 4)
        asking.cancel()
        await eventually(lambda: outcome("left"), lambda count: count == 1)
        worker.faults.append("die_midway")
        async with rig.http.stream("POST", "/generate", json=PROMPT | {"stream": True}) as answer:
            assert "worker_lost" in (await answer.aread()).decode()
        await eventually(lambda: outcome("worker_lost"), lambda count: count == 1)
        refused = await rig.http.post("/generate", json=PROMPT)
        assert refused.status_code in (502, 503)
        counts = [await outcome(name) for name in ("ok", "refused", "failed", "left")]
        assert counts == [1, 1, 1, 1]
        # all but those that left and that found no worker
        assert (await values(rig))["agentserve_pass_first_byte_seconds_count"] == 4


async def test_a_client_that_leaves_a_stream_is_counted_as_such(tmp_path):
    async def slow(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        path = (await reader.readuntil(b"\r\n\r\n")).split()[1]
        if path == b"/generate":
            writer.write(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n1\r\nx\r\n")
            await reader.read()  # until the router closes it
        else:
            status = {b"/health": 200}.get(path, 404)
            writer.write(
                b"HTTP/1.1 %d X\r\nconnection: close\r\ncontent-length: 0\r\n\r\n" % status
            )
        writer.close()

    async with await asyncio.start_server(slow, "127.0.0.1", 0) as server:
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        async with running_rig(tmp_path, [], workers=(url,), plain_workers=True) as rig:
            await eventually(rig.client.ready, lambda health: health.status == "ok")
            async with rig.http.stream("POST", "/generate", json=PROMPT) as answer:
                assert await anext(answer.aiter_raw()) == b"x"

            async def left() -> float:
                found = await values(rig)
                return found.get('agentserve_pass_requests_total{outcome="left"}', 0.0)

            await eventually(left, lambda count: count == 1)


async def _asked(worker: FakeWorker) -> int:
    return len(worker.requests)


async def test_followers_are_counted_while_they_follow(tmp_path):
    async with running_rig(tmp_path) as rig:
        session = await rig.client.create_session(new_session())
        following = asyncio.create_task(_follow(rig, session.id))
        await eventually(lambda: _followers(rig), lambda count: count == 1)
        await rig.client.release(session.id)
        await following
        await eventually(lambda: _followers(rig), lambda count: count == 0)


async def _follow(rig: Rig, session_id: str) -> None:
    async for _ in rig.client.follow(session_id):
        pass


async def _followers(rig: Rig) -> float:
    return (await values(rig))["agentserve_event_followers"]


async def test_the_stores_calls_are_timed(rig: Rig):
    await rig.client.create_session(new_session())
    found = await values(rig)
    assert found['agentserve_store_seconds_count{operation="create"}'] >= 1
    assert found['agentserve_store_seconds_sum{operation="create"}'] > 0
    assert found["process_resident_memory_bytes"] > 0


async def test_metrics_are_answered_without_the_store(tmp_path, redis_server: RedisServer):
    async with running_rig(tmp_path, store=redis_server.url) as rig:
        before = await values(rig)
        assert before['agentserve_sessions{status="idle"}'] == 0
        redis_server.kill()
        try:
            with pytest.raises(StorageFailed):
                await rig.client.create_session(new_session())
            found = await values(rig)
        finally:
            redis_server.start()
        failures = [n for s, n in found.items() if s.startswith("agentserve_store_failures_total")]
        assert sum(failures) >= 1
        assert found['agentserve_workers{state="ready"}'] == 2
        # not known is not none
        assert not any(sample.startswith("agentserve_sessions") for sample in found)
        assert not any(sample.startswith("agentserve_worker_held") for sample in found)


async def test_metrics_do_not_wait_for_a_store_that_hangs(tmp_path, redis_server: RedisServer):
    async with running_rig(tmp_path, store=redis_server.url) as rig:
        redis_server.freeze()
        try:
            async with asyncio.timeout(9):  # the store's own patience is 10 s
                found = await values(rig)
        finally:
            redis_server.thaw()
        assert found['agentserve_workers{state="ready"}'] == 2
        assert not any(sample.startswith("agentserve_sessions") for sample in found)


async def test_a_blocked_event_loop_is_seen():
    metrics = Metrics()
    watching = asyncio.create_task(watch_lag(metrics.loop_lag))
    await asyncio.sleep(0)
    time.sleep(0.8)  # noqa: ASYNC251 -- this is what blocks it

    async def lag() -> float:
        return read(metrics.render({}, []).decode())["agentserve_event_loop_lag_seconds_sum"]

    await eventually(lag)
    watching.cancel()
    assert await lag() >= 0.2
