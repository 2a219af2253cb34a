"""Sessions that go on from another one's turns."""

from __future__ import annotations

import asyncio

import pytest

from agentserve.core.blobs import sha256_of
from agentserve.core.errors import InvalidRequest, StaleEpoch, TurnInProgress, UnknownSession

from .rig import Rig, eventually, new_session, picture

RED, BLUE, GREY = (picture(color=color) for color in ((255, 0, 0), (0, 0, 255), (9, 9, 9)))


async def turns(rig: Rig, session_id: str) -> list[tuple[str, str]]:
    page = (await rig.http.get(f"/v1/sessions/{session_id}/turns")).json()
    return [(turn["session_id"], turn["screenshot"]) for turn in page["turns"]]


async def test_a_fork_goes_on_from_its_parents_turns_and_leaves_them_alone(rig: Rig):
    parent = await rig.client.create_session(new_session())
    await rig.client.turn(parent.id, RED)
    fork = await rig.client.create_session(new_session(parent=parent.id))
    assert (fork.parent, fork.turns, fork.epoch) == (parent.id, 1, 1)
    assert fork.pin.worker_id == parent.pin.worker_id and fork.usage.prompt_tokens == 0
    other = await rig.client.turn(fork.id, BLUE, instruction="that way")
    same = await rig.client.turn(parent.id, GREY, instruction="this way")
    # both begin with the same prefix, and neither sees the other's turn
    assert other.usage.stored_prefix_tokens == same.usage.stored_prefix_tokens > 0
    for result in (other, same):
        assert result.usage.cached_tokens >= result.usage.stored_prefix_tokens
    assert await turns(rig, fork.id) == [(fork.id, sha256_of(RED)), (fork.id, sha256_of(BLUE))]
    assert await turns(rig, parent.id) == [(parent.id, sha256_of(s)) for s in (RED, GREY)]
    with pytest.raises(StaleEpoch):
        await rig.client.turn(fork.id, GREY, epoch=1)
    created = (await rig.events(fork.id))[0]
    assert created.data["parent"] == parent.id


async def test_forks_outlive_their_parent(rig: Rig):
    parent = await rig.client.create_session(new_session())
    await rig.client.turn(parent.id, RED)
    fork = await rig.client.create_session(new_session(parent=parent.id))
    await rig.client.delete(parent.id)
    assert (await rig.client.turn(fork.id, BLUE)).turn == 1
    with pytest.raises(UnknownSession):
        await rig.client.create_session(new_session(parent=parent.id))


@pytest.mark.parametrize(
    ("change", "name"), [({"policy": "current"}, "policy"), ({"scale": 1.4}, "scale")]
)
async def test_a_fork_is_of_its_parents_kind(rig: Rig, change, name):
    parent = await rig.client.create_session(new_session())
    with pytest.raises(InvalidRequest, match=f"{name} is .* parent"):
        await rig.client.create_session(new_session(parent=parent.id, **change))


async def test_a_mosaic_forks_with_its_usual_cell(rig: Rig):
    parent = await rig.client.create_session(new_session(policy="mosaic"))
    fork = await rig.client.create_session(new_session(policy="mosaic", parent=parent.id))
    assert fork.cell == parent.cell == 112


async def test_a_running_session_is_not_forked(rig: Rig):
    parent = await rig.client.create_session(new_session())
    turn = asyncio.ensure_future(rig.client.turn(parent.id, RED, instruction="!sleep 2"))
    await eventually(lambda: rig.client.session(parent.id), lambda s: s.status.value == "running")
    with pytest.raises(TurnInProgress):
        await rig.client.create_session(new_session(parent=parent.id))
    await turn
