from __future__ import annotations

import asyncio

import pytest

from agentserve.core.errors import UnknownSession

from .rig import Rig, new_session, picture


async def test_events_are_paged_by_cursor_without_gaps(rig: Rig):
    session = await rig.client.create_session(new_session())
    for _ in range(3):
        await rig.client.turn(session.id, picture())
    first = await rig.client.events(session.id, limit=5)
    second = await rig.client.events(session.id, after=first.next_cursor)
    events = first.events + second.events
    assert [event.seq for event in events] == list(range(1, 9))
    assert [event.type.value for event in events] == [
        "session.created",
        "pin.placed",
        *(["turn.started", "turn.completed"] * 3),
    ]
    assert {event.session_id for event in events} == {session.id}
    empty = await rig.client.events(session.id, after=second.next_cursor)
    assert (empty.events, empty.next_cursor) == ([], 8)


async def test_completed_turns_tell_action_and_usage(rig: Rig):
    session = await rig.client.create_session(new_session())
    result = await rig.client.turn(session.id, picture())
    data = (await rig.events(session.id))[-1].data
    assert data["action"] == result.action.model_dump()
    assert data["usage"]["prompt_tokens"] == result.usage.prompt_tokens
    assert (data["turn"], data["epoch"], data["invalid"]) == (0, 0, None)


async def test_followers_see_events_as_they_happen_and_the_end(rig: Rig):
    session = await rig.client.create_session(new_session())
    seen: asyncio.Queue = asyncio.Queue()

    async def follow(after: int) -> list:
        events = []
        async for event in rig.client.follow(session.id, after=after):
            events.append(event)
            seen.put_nowait(event.type.value)
        return events

    follower = asyncio.create_task(follow(0))
    for expected in ("session.created", "pin.placed"):
        assert await asyncio.wait_for(seen.get(), 5) == expected
    turn = asyncio.create_task(rig.client.turn(session.id, picture(), instruction="!sleep 0.3"))
    assert await asyncio.wait_for(seen.get(), 5) == "turn.started"
    assert not turn.done()
    await turn
    assert await asyncio.wait_for(seen.get(), 5) == "turn.completed"
    await rig.client.release(session.id)
    events = await asyncio.wait_for(follower, 5)
    assert events == await rig.events(session.id)
    assert events[-1].type.value == "session.released"
    late = [event async for event in rig.client.follow(session.id, after=3)]
    assert late == events[3:]


async def test_a_stream_behind_the_end_of_a_closed_session_ends(rig: Rig):
    session = await rig.client.create_session(new_session())
    await rig.client.release(session.id)
    assert [event async for event in rig.client.follow(session.id, after=99)] == []


async def test_deleting_a_session_ends_its_streams(rig: Rig):
    session = await rig.client.create_session(new_session())
    events = aiter(rig.client.follow(session.id, after=2))
    waiting = asyncio.create_task(anext(events, None))
    await asyncio.sleep(0.2)
    await rig.client.delete(session.id)
    last = await asyncio.wait_for(waiting, 5)
    assert last is None or last.type.value == "session.released"


async def test_the_stream_is_plain_sse_and_resumes_by_last_event_id(rig: Rig):
    session = await rig.client.create_session(new_session())
    await rig.client.release(session.id)
    answer = await rig.http.get(
        f"/v1/sessions/{session.id}/events",
        headers={"accept": "text/event-stream", "Last-Event-ID": "2"},
    )
    assert answer.headers["content-type"].startswith("text/event-stream")
    lines = [line for line in answer.text.splitlines() if line]
    assert lines[:2] == ["id: 3", "event: session.released"]
    assert lines[2].startswith('data: {"session_id":')
    assert len(lines) == 3
    odd = await rig.http.get(
        f"/v1/sessions/{session.id}/events",
        headers={"accept": "text/event-stream", "Last-Event-ID": "x"},
    )
    assert odd.json()["code"] == "invalid_request"


async def test_unknown_sessions_have_no_stream(rig: Rig):
    with pytest.raises(UnknownSession):
        async for _ in rig.client.follow("s_none"):
            pass
