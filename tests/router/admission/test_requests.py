"""Requests of the pass-through that wait for a place."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import httpx
import pytest

from agentserve.testing.worker import FakeWorker

from ..rig import Rig, eventually, new_session, picture, running_rig

PROMPT = {"text": "hello", "sampling_params": {"max_new_tokens": 4}}


@pytest.fixture(scope="module")
async def narrow(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Rig]:
    """A router that runs one request at a time and queues two."""
    limits = {"max_running_requests": 1, "max_queued_requests": 2}
    data = tmp_path_factory.mktemp("narrow")
    async with FakeWorker() as worker, running_rig(data, [worker], **limits) as rig:
        yield rig


async def reaches(rig: Rig, running: int, queued: int) -> None:
    async def now() -> tuple[int, int]:
        return rig.services.admission.requests.running, rig.services.admission.requests.queued

    await eventually(now, lambda numbers: numbers == (running, queued))


def asked(rig: Rig, text: str) -> asyncio.Task[httpx.Response]:
    return asyncio.create_task(rig.http.post("/generate", json=PROMPT | {"text": text}))


async def left(*requests: asyncio.Task[httpx.Response]) -> None:
    """Their clients go away."""
    for request in requests:
        request.cancel()
    await asyncio.wait(requests)


def texts(rig: Rig) -> list[str]:
    return [body["text"] for body in rig.workers[0].requests if "text" in body]


async def test_requests_wait_and_those_without_room_are_refused(narrow: Rig):
    worker = narrow.workers[0]
    worker.requests.clear()
    worker.faults.append("hang")
    first = asked(narrow, "first")
    await reaches(narrow, 1, 0)
    waiting = [asked(narrow, f"w{number}") for number in range(2)]
    await reaches(narrow, 1, 2)
    refused = await narrow.http.post("/generate", json=PROMPT)
    assert (refused.status_code, refused.json()["code"]) == (503, "overloaded")
    assert int(refused.headers["retry-after"]) >= 1
    # what is no generation does not wait, and neither do turns
    assert (await narrow.http.get("/v1/models")).status_code == 200
    session = await narrow.client.create_session(new_session())
    assert (await narrow.client.turn(session.id, picture())).turn == 0
    await left(first)
    assert [(await request).status_code for request in waiting] == [200, 200]
    await reaches(narrow, 0, 0)
    assert set(texts(narrow)[-2:]) == {"w0", "w1"}


async def test_a_client_that_leaves_while_it_waits_is_never_sent(narrow: Rig):
    worker = narrow.workers[0]
    worker.requests.clear()
    worker.aborted.clear()
    worker.faults.append("hang")
    first = asked(narrow, "first")
    await reaches(narrow, 1, 0)
    leaving = asked(narrow, "leaving")
    await reaches(narrow, 1, 1)
    staying = asked(narrow, "staying")
    await reaches(narrow, 1, 2)
    await left(leaving)
    await reaches(narrow, 1, 1)
    await left(first)
    assert (await staying).status_code == 200
    await reaches(narrow, 0, 0)
    assert texts(narrow) == ["first", "staying"]
    assert [body["text"] for body in worker.aborted] == ["first"]


async def test_a_place_is_held_until_the_stream_has_ended(narrow: Rig):
    async with narrow.http.stream("POST", "/generate", json=PROMPT | {"stream": True}) as answer:
        assert [line async for line in answer.aiter_lines()][-2] == "data: [DONE]"
    await reaches(narrow, 0, 0)
    narrow.workers[0].faults.append("error")
    assert (await narrow.http.post("/generate", json=PROMPT)).status_code == 500
    await reaches(narrow, 0, 0)


async def test_a_worker_that_dies_costs_no_place(tmp_path):
    async with running_rig(tmp_path, max_running_requests=1) as rig:
        for _ in range(2):  # the first finds a worker that takes over, the second none
            for worker in rig.workers:
                worker.faults.append("die")
            answer = await rig.http.post("/generate", json=PROMPT)
            assert answer.json()["code"] in ("worker_lost", "no_worker")
            await reaches(rig, 0, 0)
