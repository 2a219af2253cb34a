"""Creating, reading, listing, closing and expiring sessions over the real HTTP."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from agentserve.core.errors import (
    InvalidRequest,
    SessionClosed,
    UnknownModel,
    UnknownProgram,
    UnknownSession,
)
from agentserve.core.pruning import Pruning
from agentserve.core.screens import Size
from agentserve.testing.worker import FakeWorker

from .rig import MODEL_SIZE, VIEWPORT, Rig, eventually, new_session, picture, running_rig


async def test_create_places_the_session_and_tells_everything(rig: Rig):
    session = await rig.client.create_session(new_session(metadata={"a": "b"}, policy="last:3"))
    assert session.id.startswith("s_") and len(session.id) == 24
    assert (session.status.value, session.epoch, session.turns) == ("idle", 0, 0)
    assert (session.space.css, session.space.model) == (VIEWPORT, MODEL_SIZE)
    assert session.metadata == {"a": "b"}
    assert session.pin is not None and session.pin.generation == 1
    assert session.pin.boot_id == rig.worker_of(session).boot_id
    assert (session.expires_at - session.created_at).total_seconds() == 3600
    assert await rig.client.session(session.id) == session
    created, placed = await rig.events(session.id)
    assert (created.type.value, created.seq) == ("session.created", 1)
    assert (placed.type.value, placed.data["worker"]) == ("pin.placed", session.pin.worker_id)


async def test_created_answers_201_with_its_location(rig: Rig):
    answer = await rig.http.post("/v1/sessions", json=new_session().model_dump(mode="json"))
    assert answer.status_code == 201
    assert answer.headers["location"] == f"/v1/sessions/{answer.json()['id']}"


async def test_sessions_spread_evenly_over_workers(tmp_path: Path):
    async with running_rig(tmp_path) as rig:
        await asyncio.gather(*(rig.client.create_session(new_session()) for _ in range(10)))
        assert [w.sessions for w in (await rig.client.workers()).workers] == [5, 5]


async def test_a_program_that_is_not_registered_is_refused_with_the_list(rig: Rig):
    with pytest.raises(UnknownProgram) as caught:
        await rig.client.create_session(new_session(program="nosuch"))
    assert caught.value.details == {"programs": ["scripted"]}


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"policy": "some"}, "unknown policy 'some'"),
        ({"policy": "mosaic", "cell": 100}, "100 px is no multiple"),
        ({"policy": "current", "preset": "lean"}, "policy current sends whole pictures"),
        ({"eviction": {"method": "vtw"}}, "policy full sends whole pictures"),
        (
            {"policy": "mosaic", "pruning": {"method": "btp", "layers": [0.2, 0.6, 0.95]}},
            "btp has 3 stages, the last at 0.95 of the depth: a model of 6 layers",
        ),
        ({"timeout_s": 90_000}, "timeout_s is at most 86400"),
        ({"inactivity_timeout_s": 1e9}, "inactivity_timeout_s is at most"),
        ({"viewport": Size(width=8192, height=8192)}, "limit is 8192 px a side"),
        ({"viewport": Size(width=4000, height=4000)}, "a screen of 4004x4004 takes 20451 tokens"),
    ],
)
async def test_settings_that_cannot_work_are_refused(small_context: Rig, change, words):
    with pytest.raises(InvalidRequest, match=words):
        await small_context.client.create_session(new_session(**change))
    assert (await small_context.client.sessions()).sessions == []


async def test_a_model_nobody_serves_is_refused_with_the_models(rig: Rig):
    with pytest.raises(UnknownModel) as caught:
        await rig.client.create_session(new_session(model="other"))
    assert caught.value.details == {"models": ["fake-vl", "models/fake-vl"]}
    by_path = await rig.client.create_session(new_session(model="models/fake-vl"))
    assert by_path.model == "models/fake-vl"


async def test_pages_are_newest_first_and_filter_by_status(rig: Rig):
    ids = [(await rig.client.create_session(new_session())).id for _ in range(5)]
    await rig.client.release(ids[2])
    first = await rig.client.sessions(limit=2)
    assert [s.id for s in first.sessions] == [ids[4], ids[3]]
    second = await rig.client.sessions(limit=2, cursor=first.next_cursor)
    assert [s.id for s in second.sessions] == [ids[2], ids[1]]
    released = await rig.client.sessions(status="released", limit=1)
    assert [s.id for s in released.sessions] == [ids[2]]
    with pytest.raises(InvalidRequest, match="cursor"):
        await rig.client.sessions(cursor="x")


async def test_released_sessions_stay_readable_and_refuse_turns(rig: Rig):
    session = await rig.client.create_session(new_session())
    released = await rig.client.release(session.id)
    assert released.status.value == "released"
    assert (await rig.client.release(session.id)) == released
    with pytest.raises(SessionClosed) as caught:
        await rig.client.turn(session.id, picture())
    assert caught.value.details == {"status": "released"}
    assert (await rig.types(session.id)).count("session.released") == 1


async def test_deleted_sessions_are_forgotten(rig: Rig):
    session = await rig.client.create_session(new_session())
    await rig.client.turn(session.id, picture())
    await rig.client.delete(session.id)
    for call in (
        rig.client.session(session.id),
        rig.client.events(session.id),
        rig.client.turn(session.id, picture()),
        rig.client.release(session.id),
        rig.client.delete(session.id),
    ):
        with pytest.raises(UnknownSession):
            await call
    assert await rig.services.store.transcript(session.id) == []
    assert await rig.services.store.events(session.id, 0, 10) == []


async def test_sessions_expire_by_inactivity_and_by_timeout(rig: Rig):
    for setting, reason in (("inactivity_timeout_s", "inactivity"), ("timeout_s", "timeout")):
        session = await rig.client.create_session(new_session(**{setting: 0.2}))
        await asyncio.sleep(0.25)
        with pytest.raises(SessionClosed, match="expired"):
            await rig.client.turn(session.id, picture())
        last = (await rig.events(session.id))[-1]
        assert (last.type.value, last.data) == ("session.expired", {"reason": reason})


async def test_the_reaper_expires_sessions_that_nobody_asks_for(rig: Rig):
    session = await rig.client.create_session(new_session(inactivity_timeout_s=0.1))
    expired = await eventually(
        lambda: rig.client.session(session.id), lambda s: s.status.value == "expired"
    )
    assert expired.turns == 0


async def test_a_mosaic_on_pages_is_warned_of(tmp_path: Path):
    async with FakeWorker(page_size=16) as paged, running_rig(tmp_path, [paged]) as rig:
        mosaic = await rig.client.create_session(new_session(policy="mosaic"))
        assert [warning[:30] for warning in mosaic.warnings] == ["the worker's page size is 16: "]
        assert (await rig.client.create_session(new_session())).warnings == []


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"pruning": {"method": "nosuch"}}, "pruning.method"),
        ({"pruning": {"method": "fastv", "ratio": 1.0}}, "less than or equal to 0.95"),
        ({"pruning": {"method": "uniform", "layers": [0.5]}}, "it has no layers"),
        ({"pruning": {"method": "btp", "layers": [0.5, 0.2]}}, "layers ascend"),
        ({"pruning": {"method": "btp", "rows": 4}}, "rows are of fastv"),
        ({"pruning": {"method": "btp", "recycle": True}}, "are of sparsevlm"),
        ({"eviction": {"method": "vtw", "keep": 1.5}}, "less than or equal to 1"),
        ({"preset": "lean", "pruning": {"method": "fastv"}}, "says what is pruned"),
        ({"preset": "fast"}, "'off', 'safe', 'balanced' or 'lean'"),
    ],
)
async def test_what_is_to_be_left_out_is_checked(rig: Rig, fields, words):
    before = await rig.client.sessions()
    body = new_session(policy="mosaic").model_dump(mode="json") | fields
    answer = await rig.http.post("/v1/sessions", json=body)
    assert (answer.status_code, answer.json()["code"]) == (422, "invalid_request")
    assert words in answer.text
    assert await rig.client.sessions() == before


async def test_what_is_left_out_is_kept_with_the_session(rig: Rig):
    asked = {"method": "fastv", "ratio": 0.25, "layers": [0.5]}
    session = await rig.client.create_session(new_session(policy="mosaic", pruning=asked))
    again = await rig.client.session(session.id)
    assert again.pruning == Pruning(**asked) and again.eviction is None
    fork = await rig.client.create_session(
        new_session(policy="mosaic", pruning=asked, parent=session.id)
    )
    assert fork.pruning == again.pruning
