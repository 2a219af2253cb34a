"""The policy mosaic through the real line: what a turn costs, and what is kept."""

from __future__ import annotations

import io

import httpx
import numpy as np
import pytest
from e2e.helpers import navigator, screen
from PIL import Image

from agentserve.cli.stack import Stack
from agentserve.client import RouterClient
from agentserve.core.sessions import TurnResult

SCREEN = 80
"""Visual tokens of the sessions' screens."""


def changed(image: bytes, turn: int, x: int = 60, y: int = 60) -> bytes:
    """The screen with another small square at (x, y)."""
    with Image.open(io.BytesIO(image)) as opened:
        pixels = np.array(opened.convert("RGB"))
    pixels[y : y + 20, x : x + 20] = (37 * turn % 256, 0, 90)
    out = io.BytesIO()
    Image.fromarray(pixels).save(out, "PNG")
    return out.getvalue()


async def play(router: RouterClient, session_id: str, screens: list[bytes]) -> list[TurnResult]:
    return [await router.turn(session_id, image) for image in screens]


@pytest.mark.parametrize("positions", ["turn", "session"])
async def test_a_turn_costs_what_changed(router: RouterClient, positions: str) -> None:
    session = await router.create_session(
        navigator(policy="mosaic", cell=56, vision_context="cell", positions=positions)
    )
    assert session.cell == 56
    first = screen(session.space.model)
    screens = [first, *(changed(first, turn) for turn in range(1, 5))]
    key, *later = await play(router, session.id, screens)
    assert (key.usage.sent_tokens, key.usage.freed_tokens) == (SCREEN, 0)
    assert len(key.regions) == 4 * 5
    assert {region.source for region in key.regions} == {"encoder"}
    assert key.usage.encoded_pictures == 4 * 5
    for result in later:
        usage = result.usage
        (region,) = result.regions
        assert (region.box.x, region.box.y, region.tokens) == (56, 56, 4)
        assert region.source == "encoder" and usage.encoded_pictures == 1
        assert usage.sent_tokens == 4 and usage.screen_tokens == SCREEN
        # what the turn before had left is all there, although its cell has gone
        assert usage.cached_tokens >= usage.stored_prefix_tokens
        assert not result.rebuilt and result.move is None
        assert usage.freed_tokens >= 4
        assert result.live_visual_tokens == SCREEN
        # and each further call of the turn goes on behind that
        for before, call in zip(usage.calls, usage.calls[1:], strict=False):
            assert call.cached_tokens >= before.prompt_tokens - 10
    sums = (await router.session(session.id)).usage
    assert sums.sent_tokens == SCREEN + 4 * 4
    assert sums.freed_tokens == sum(result.usage.freed_tokens for result in later)


@pytest.mark.parametrize("context", ["region", "screen"])
async def test_what_the_encoder_sees_changes_nothing_of_that(
    router: RouterClient, context: str
) -> None:
    session = await router.create_session(
        navigator(policy="mosaic", cell=56, vision_context=context)
    )
    first = screen(session.space.model)
    screens = [first, *(changed(first, turn) for turn in range(1, 5))]
    key, *later = await play(router, session.id, screens)
    assert [region.tokens for region in key.regions] == [SCREEN]
    for result in later:
        (region,) = result.regions
        assert (region.tokens, region.full_tokens) == (4, SCREEN if context == "screen" else 4)
        assert result.usage.cached_tokens >= result.usage.stored_prefix_tokens
        assert not result.rebuilt and result.live_visual_tokens == SCREEN


async def test_nothing_changed_and_everything_changed(router: RouterClient) -> None:
    session = await router.create_session(
        navigator(policy="mosaic", cell=56, vision_context="cell")
    )
    first = screen(session.space.model)
    _, same, other, back = await play(
        router, session.id, [first, first, screen(session.space.model), first]
    )
    assert (same.usage.sent_tokens, same.regions) == (0, [])
    assert same.live_visual_tokens == SCREEN
    assert {region.source for region in back.regions} <= {"device", "memory"}
    for result in (other, back):
        assert result.usage.sent_tokens == SCREEN
        assert result.usage.freed_tokens >= SCREEN
        assert result.live_visual_tokens == SCREEN and not result.rebuilt


async def test_a_lost_cache_is_rebuilt_from_pixels(router: RouterClient, stack: Stack) -> None:
    session = await router.create_session(
        navigator(policy="mosaic", cell=56, vision_context="cell")
    )
    first = screen(session.space.model)
    await play(router, session.id, [first, changed(first, 1)])
    async with httpx.AsyncClient() as http:
        for worker in stack.workers:
            (await http.post(f"{worker}/flush_cache")).raise_for_status()
    lost, after = await play(router, session.id, [changed(first, 2), changed(first, 3)])
    assert lost.loss is not None and lost.loss.reason == "evicted"
    assert lost.usage.cached_tokens < lost.usage.stored_prefix_tokens == lost.loss.expected_tokens
    assert lost.usage.lost_tokens == lost.loss.tokens
    assert lost.rebuilt and lost.live_visual_tokens == SCREEN
    # from then on it is in the cache again, and says that it was rebuilt once
    assert after.usage.cached_tokens >= after.usage.stored_prefix_tokens
    assert after.rebuilt and after.loss is None


async def test_two_forks_of_a_mosaic_go_their_own_ways(router: RouterClient) -> None:
    parent = await router.create_session(navigator(policy="mosaic", cell=56, vision_context="cell"))
    first = screen(parent.space.model)
    await play(router, parent.id, [first, changed(first, 1)])
    fork = await router.create_session(
        navigator(policy="mosaic", cell=56, vision_context="cell", parent=parent.id)
    )
    ours = [changed(first, 1, x=120), changed(first, 2, x=120)]
    theirs = [changed(first, 2), changed(first, 3)]
    results = [
        await router.turn(session_id, image)
        for images in zip(theirs, ours, strict=True)
        for session_id, image in zip((parent.id, fork.id), images, strict=True)
    ]
    for result in results:
        assert result.usage.cached_tokens >= result.usage.stored_prefix_tokens
        assert result.live_visual_tokens == SCREEN and not result.rebuilt
