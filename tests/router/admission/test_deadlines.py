"""A client's deadline, from the queue to the worker."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from agentserve.core.errors import SessionClosed, TurnTimeout
from agentserve.testing.server import LoopbackServer
from agentserve.testing.worker import FakeWorker

from ..rig import Rig, eventually, new_session, picture, running_rig
from .test_requests import PROMPT

RED = picture()


async def test_a_turn_that_is_late_is_aborted_on_its_worker(rig: Rig):
    session = await rig.client.create_session(new_session())
    worker = rig.worker_of(session)
    worker.faults.append("hang")
    worker.aborted.clear()
    with pytest.raises(TurnTimeout):
        await rig.client.turn(session.id, RED, epoch=0, timeout_s=1.0)
    after = await rig.client.session(session.id)
    assert (after.status, after.epoch) == ("idle", 0)
    failed = (await rig.events(session.id))[-1]
    assert (failed.type, failed.data["code"]) == ("turn.failed", "turn_timeout")

    async def aborted() -> bool:
        return worker.aborted == worker.requests[-1:]

    await eventually(aborted)
    assert (await rig.client.turn(session.id, RED, epoch=0)).turn == 0


async def test_the_routers_limit_holds_whatever_a_client_wants(tmp_path):
    async with FakeWorker() as worker, running_rig(tmp_path, [worker], turn_timeout_s=0.5) as rig:
        session = await rig.client.create_session(new_session())
        worker.faults.append("hang")
        with pytest.raises(TurnTimeout):
            await rig.client.turn(session.id, RED, timeout_s=600)


async def test_what_is_late_while_it_waits_never_reaches_a_worker(tmp_path):
    limits = {"max_running_turns": 1, "max_running_requests": 1}
    async with FakeWorker() as worker, running_rig(tmp_path, [worker], **limits) as rig:
        blocking, late = [await rig.client.create_session(new_session()) for _ in range(2)]
        worker.faults += ["hang", "hang"]
        turn = asyncio.create_task(rig.client.turn(blocking.id, RED))
        request = asyncio.create_task(rig.http.post("/generate", json=PROMPT))

        async def sent() -> int:
            return len(worker.requests)

        await eventually(sent, lambda number: number == 2)
        with pytest.raises(TurnTimeout):
            await rig.client.turn(late.id, RED, epoch=0, timeout_s=1)
        assert (await rig.client.session(late.id)).status == "idle"
        told = await rig.types(late.id)
        assert told[-2:] == ["turn.queued", "turn.failed"]
        answer = await rig.http.post("/generate", json=PROMPT, headers={"X-Request-Timeout-S": "1"})
        assert (answer.status_code, answer.json()["code"]) == (504, "turn_timeout")
        assert len(worker.requests) == 2
        request.cancel()
        turn.cancel()
        await asyncio.wait({turn, request})
        await rig.client.release(blocking.id)
        assert (await rig.client.turn(late.id, RED, epoch=0)).turn == 0


async def test_one_who_joins_with_less_time_leaves_earlier(rig: Rig):
    session = await rig.client.create_session(new_session())
    rig.worker_of(session).faults.append("hang")
    first = asyncio.create_task(rig.client.turn(session.id, RED, epoch=0))
    await eventually(lambda: rig.client.session(session.id), lambda s: s.status == "running")
    with pytest.raises(TurnTimeout):
        await rig.client.turn(session.id, RED, epoch=0, timeout_s=1)
    assert (await rig.client.session(session.id)).status == "running"
    assert not first.done()
    await rig.client.release(session.id)
    with pytest.raises(SessionClosed):
        await first


@pytest.mark.parametrize("stream", [False, True])
async def test_a_generation_that_is_late_is_aborted(rig: Rig, stream: bool):
    for worker in rig.workers:
        worker.faults.append("hang")
        worker.aborted.clear()
    answer = await rig.http.post(
        "/generate", json=PROMPT | {"stream": stream}, headers={"X-Request-Timeout-S": "1"}
    )
    assert (answer.status_code, answer.json()["code"]) == (504, "turn_timeout")

    async def aborted() -> int:
        return sum(len(worker.aborted) for worker in rig.workers)

    await eventually(aborted, lambda number: number == 1)
    for worker in rig.workers:
        worker.faults.clear()


@pytest.mark.parametrize("value", ["0", "-1", "0.99", "nan", "inf", "soon", ""])
async def test_a_timeout_that_is_none_is_refused(rig: Rig, value: str):
    session = await rig.client.create_session(new_session())
    headers = {"X-Request-Timeout-S": value}
    for path in (f"/v1/sessions/{session.id}/turns", "/generate"):
        answer = await rig.http.post(path, json=PROMPT, headers=headers)
        assert (answer.status_code, answer.json()["code"]) == (422, "invalid_request")


async def test_a_stream_that_is_late_ends_with_the_reason(tmp_path):
    left = asyncio.Event()

    async def generate(request: Request) -> Response:
        async def chunks() -> AsyncIterator[bytes]:
            try:
                yield b"data: 1\n\n"
                await asyncio.Event().wait()
            finally:
                left.set()

        return StreamingResponse(chunks(), media_type="text/event-stream")

    async def health(request: Request) -> Response:
        return Response()

    routes = [Route("/generate", generate, methods=["POST"]), Route("/health", health)]
    async with (
        LoopbackServer(Starlette(routes=routes)) as worker,
        running_rig(tmp_path, [], workers=(worker.url,), plain_workers=True) as rig,
    ):
        await eventually(rig.client.ready, lambda health: health.status == "ok")
        async with rig.http.stream(
            "POST", "/generate", json=PROMPT, headers={"X-Request-Timeout-S": "1"}
        ) as answer:
            first, last = [line async for line in answer.aiter_lines() if line]
        assert first == "data: 1"
        assert json.loads(last.removeprefix("data: "))["error"]["code"] == "turn_timeout"
        await asyncio.wait_for(left.wait(), 20)
