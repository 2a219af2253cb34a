"""A drain between two real workers: what moves is computed on the other one before."""

from __future__ import annotations

import pytest
from e2e.helpers import command, navigator, screen
from e2e.test_mosaic import changed

from agentserve.cli.stack import Stack
from agentserve.client import RouterClient
from agentserve.core.workers import Drain


@pytest.mark.parametrize(
    "fields",
    [
        {"policy": "full"},
        {"policy": "mosaic", "cell": 56, "vision_context": "cell"},
        {"policy": "mosaic", "cell": 56, "preset": "lean"},
    ],
    ids=lambda fields: fields.get("preset", fields["policy"]),
)
async def test_a_moved_session_finds_all_of_its_prompt(
    router: RouterClient, stack: Stack, fields: dict
) -> None:
    session = await router.create_session(navigator(**fields))
    first = screen(session.space.model)
    for number in range(3):
        await router.turn(session.id, changed(first, number))
    here = (await router.session(session.id)).pin.worker_id
    code, told, _ = await command(stack, "workers", "drain", here)
    assert code == 0 and "is empty" in told
    moved = (await router.session(session.id)).pin
    assert moved.worker_id != here and moved.moved == "drained"
    assert moved.expected_cached_tokens > 0
    result = await router.turn(session.id, changed(first, 3))
    assert result.worker.id == moved.worker_id
    assert result.usage.cached_tokens >= result.usage.stored_prefix_tokens > 0
    assert result.loss is None
    # of a mosaic, what had left the cache was not in sight when this one was computed
    assert result.rebuilt == (fields["policy"] == "mosaic")

    code, listed, _ = await command(stack, "workers")
    assert code == 0 and ", drained" in listed
    code, _, _ = await command(stack, "workers", "undrain", here)
    assert code == 0
    assert [worker.drain for worker in (await router.workers()).workers] == [None, None]
    done: list[Drain] = [drain async for drain in router.follow_drain(here)]
    assert done == []
