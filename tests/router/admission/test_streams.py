"""A turn as a stream of events, and going on with one that broke."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from agentserve.core.errors import (
    BadScreenshot,
    Overloaded,
    StaleEpoch,
    UnknownSession,
)
from agentserve.core.events import TurnEvent
from agentserve.testing.worker import FakeWorker

from ..rig import SCREEN_TOKENS, Rig, eventually, new_session, picture, running_rig
from .test_leaving import aborts, hanging, is_idle, sent
from .test_turns import blocked, reaches

RED, BLUE = picture(color=(255, 0, 0)), picture(color=(0, 0, 255))


@pytest.fixture(scope="module")
async def narrow(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Rig]:
    """A router that runs one turn at a time and queues one."""
    limits = {"max_running_turns": 1, "max_queued_turns": 1}
    data = tmp_path_factory.mktemp("narrow")
    async with FakeWorker() as worker, running_rig(data, [worker], **limits) as rig:
        yield rig


async def streamed(rig: Rig, session_id: str, **fields: Any) -> list[TurnEvent]:
    fields = {"epoch": 0} | fields
    return [event async for event in rig.client.turn_stream(session_id, RED, **fields)]


def kinds(events: list[TurnEvent]) -> list[str]:
    return [event.type.value for event in events]


async def test_a_stream_tells_how_the_turn_goes_and_its_result(rig: Rig):
    session = await rig.client.create_session(new_session())
    started, completed = await streamed(rig, session.id)
    assert (started.type, completed.type) == ("started", "completed")
    assert [started.id, completed.id] == [f"{session.id}:0:1", f"{session.id}:0:2"]
    assert started.data == {
        "worker": {"id": session.pin.worker_id, "boot_id": session.pin.boot_id},
        "attempt": 1,
        "prior_tokens": 0,
        "screen_tokens": SCREEN_TOKENS,
        "move": None,
    }
    stored = await rig.client.turn(session.id, RED, epoch=0)
    assert started.result is None
    assert completed.result.model_copy(update={"replayed": True}) == stored
    (again,) = await streamed(rig, session.id)  # all that is known of it now
    assert again.result == stored


async def test_the_epoch_may_be_left_out(rig: Rig):
    session = await rig.client.create_session(new_session())
    await rig.client.turn(session.id, RED)
    async with rig.http.stream(
        "POST",
        f"/v1/sessions/{session.id}/turns",
        files={"screenshot": BLUE},
        headers={"accept": "text/event-stream"},
    ) as answer:
        assert answer.headers["content-type"].startswith("text/event-stream")
        ids = [line async for line in answer.aiter_lines() if line.startswith("id:")]
    assert ids == [f"id: {session.id}:1:1", f"id: {session.id}:1:2"]


async def test_a_turn_that_waits_says_so(narrow: Rig):
    go_on = await blocked(narrow)
    session, refused = [await narrow.client.create_session(new_session()) for _ in range(2)]
    stream = narrow.client.turn_stream(session.id, RED, epoch=0)
    queued = await anext(stream)
    assert (queued.type, queued.data) == ("queued", {"ahead": 0})
    with pytest.raises(Overloaded) as caught:  # with a status: nothing was told yet
        await streamed(narrow, refused.id)
    assert caught.value.retry_after >= 1
    await go_on()
    assert kinds([event async for event in stream]) == ["started", "completed"]


async def test_what_is_wrong_from_the_beginning_has_a_status(rig: Rig):
    session = await rig.client.create_session(new_session())
    with pytest.raises(UnknownSession):
        await streamed(rig, "s_none")
    with pytest.raises(StaleEpoch):
        await streamed(rig, session.id, epoch=3)
    with pytest.raises(BadScreenshot):
        async for _ in rig.client.turn_stream(session.id, b"none", epoch=0):
            pass


async def test_a_worker_that_dies_is_told_and_the_turn_goes_on(tmp_path):
    async with running_rig(tmp_path) as rig:
        session = await rig.client.create_session(new_session())
        rig.worker_of(session).faults.append("die")
        events = await streamed(rig, session.id)
        assert kinds(events) == ["started", "retried", "started", "completed"]
        assert events[1].data == {"reason": "worker_lost", "worker": session.pin.worker_id}
        assert events[2].data["attempt"] == 2
        assert events[3].result.worker.id != session.pin.worker_id
        assert [event.id.rpartition(":")[2] for event in events] == ["1", "2", "3", "4"]


async def test_a_turn_that_cannot_be_saved_ends_its_stream_with_the_reason(tmp_path):
    async with FakeWorker() as worker, running_rig(tmp_path, [worker]) as rig:
        session = await rig.client.create_session(new_session())
        worker.faults.append("die")
        events: list[dict[str, str]] = [{}]
        async with rig.http.stream(
            "POST",
            f"/v1/sessions/{session.id}/turns",
            files={"screenshot": RED},
            data={"epoch": "0"},
            headers={"accept": "text/event-stream"},
        ) as answer:
            async for line in answer.aiter_lines():
                name, _, value = line.partition(": ")
                if name:
                    events[-1][name] = value
                else:
                    events.append({})
        assert [event["event"] for event in events if event] == ["started", "error"]
        error = json.loads(events[1]["data"])
        assert (error["code"], error["session_id"]) == ("worker_lost", session.id)
        assert error["request_id"] == answer.headers["x-request-id"]
        assert events[1]["id"] == f"{session.id}:0:2"
        assert (await rig.client.session(session.id)).status == "idle"
        await worker.start()
        await eventually(rig.client.ready, lambda health: health.status == "ok")
        again = await streamed(rig, session.id, last_event_id=events[1]["id"])
        assert again[-1].result.turn == 0


async def test_a_broken_stream_goes_on_where_it_was(rig: Rig):
    session, worker = await hanging(rig)
    worker.faults.clear()
    worker.delay_s = 1.0
    stream = rig.client.turn_stream(session.id, RED, epoch=0)
    started = await anext(stream)
    assert started.type == "started"
    await stream.aclose()  # the connection breaks
    await sent(rig, session)
    rest = await streamed(rig, session.id, last_event_id=started.id)
    worker.delay_s = 0.0
    assert kinds(rest) == ["completed"]
    assert rest[0].id == f"{session.id}:0:2"
    assert rest[0].result.replayed
    assert len(worker.requests) == 1
    late = await streamed(rig, session.id, last_event_id=rest[0].id)
    assert kinds(late) == ["completed"]
    # an id of the turn before says nothing of this one
    following = await streamed(rig, session.id, epoch=1, last_event_id=rest[0].id)
    assert kinds(following) == ["started", "completed"]


async def test_a_stream_that_breaks_may_cancel_its_turn(narrow: Rig):
    session, worker = await hanging(narrow)
    stream = narrow.client.turn_stream(session.id, RED, epoch=0, on_disconnect="cancel")
    await anext(stream)
    await sent(narrow, session)
    await stream.aclose()
    await aborts(worker)
    await is_idle(narrow, session)
    await reaches(narrow, 0, 0)


async def test_a_stream_of_a_turn_that_waits_drops_it_when_it_breaks(narrow: Rig):
    go_on = await blocked(narrow)
    session = await narrow.client.create_session(new_session())
    stream = narrow.client.turn_stream(session.id, RED, epoch=0)
    assert (await anext(stream)).type == "queued"
    await stream.aclose()
    await is_idle(narrow, session)
    await go_on()
    await reaches(narrow, 0, 0)


async def test_a_silent_stream_has_a_heartbeat(rig: Rig, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("agentserve.router.api.turn_stream.HEARTBEAT_S", 1)
    session, worker = await hanging(rig)
    async with rig.http.stream(
        "POST",
        f"/v1/sessions/{session.id}/turns",
        files={"screenshot": RED},
        headers={"accept": "text/event-stream"},
    ) as answer:
        async for line in answer.aiter_lines():
            if line.startswith(":"):
                break
    await rig.client.release(session.id)
    await aborts(worker)


async def test_a_stream_begins_though_nothing_is_told_yet(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
):
    """A proxy would cut a connection on which nothing comes for long."""
    monkeypatch.setattr("agentserve.router.api.turn_stream.FIRST_S", 0.05)
    go_on = asyncio.Event()
    session = await rig.client.create_session(new_session())
    update = rig.services.store.update

    async def slow(*arguments: Any, **named: Any) -> Any:
        await go_on.wait()
        return await update(*arguments, **named)

    monkeypatch.setattr(rig.services.store, "update", slow)
    async with rig.http.stream(
        "POST",
        f"/v1/sessions/{session.id}/turns",
        files={"screenshot": RED},
        headers={"accept": "text/event-stream"},
    ) as answer:
        assert answer.status_code == 200
        go_on.set()
        told = [line async for line in answer.aiter_lines() if line.startswith("event:")]
    assert told == ["event: started", "event: completed"]


@pytest.mark.parametrize("last", ["1", "s_other:0:1", "{id}:0", "{id}:0:x", "{id}:-1:1", ""])
async def test_a_last_event_id_that_is_none_is_refused(rig: Rig, last: str):
    session = await rig.client.create_session(new_session())
    answer = await rig.http.post(
        f"/v1/sessions/{session.id}/turns",
        files={"screenshot": RED},
        headers={"accept": "text/event-stream", "last-event-id": last.format(id=session.id)},
    )
    assert (answer.status_code, answer.json()["code"]) == (422, "invalid_request")
    assert (await rig.client.session(session.id)).turns == 0
