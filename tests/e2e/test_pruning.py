"""Sessions that leave visual tokens out, through the real line."""

from __future__ import annotations

import json

import numpy as np
import pytest
from e2e.helpers import command, navigator, screen
from e2e.test_mosaic import SCREEN, changed, play

from agentserve.cli.stack import Stack
from agentserve.client import RouterClient
from agentserve.core.item_urls import kept_tokens
from agentserve.core.pruning import Compression, Eviction, Pruning
from agentserve.core.sessions import TurnResult

HALF = SCREEN // 2


def live(result: TurnResult) -> int:
    assert result.token_map is not None
    return len(kept_tokens(result.token_map.live, SCREEN))


@pytest.mark.parametrize("method", ["fastv", "pyramid_drop", "btp", "sparsevlm"])
async def test_pruned_inside_the_model(router: RouterClient, method: str) -> None:
    session = await router.create_session(
        navigator(policy="mosaic", cell=56, pruning={"method": method, "ratio": 0.5})
    )
    first = screen(session.space.model)
    key, second, third = await play(
        router, session.id, [first, changed(first, 1), changed(first, 2)]
    )
    assert key.usage.pruned_tokens == HALF
    assert key.live_visual_tokens == live(key) == HALF
    assert [region.left_tokens for region in key.regions] == [HALF]
    assert key.usage.calls[0].unchosen is None
    for result in (second, third):
        # what is left is all found, and the cell that changed gives up its half
        assert result.usage.cached_tokens >= result.usage.stored_prefix_tokens
        assert not result.rebuilt
        assert result.usage.pruned_tokens >= 2
    sums = (await router.session(session.id)).usage
    assert sums.pruned_tokens == sum(r.usage.pruned_tokens for r in (key, second, third))


@pytest.mark.parametrize("method", ["attention", "look_m", "uniform", "random", "vtw"])
async def test_evicted_after_the_answer(router: RouterClient, method: str) -> None:
    session = await router.create_session(
        navigator(policy="mosaic", cell=56, eviction={"method": method, "keep": 0.25})
    )
    first = screen(session.space.model)
    key, second = await play(router, session.id, [first, changed(first, 1)])
    left = 2 if method == "vtw" else SCREEN // 4
    assert key.usage.pruned_tokens == 0
    assert key.usage.freed_tokens == SCREEN - left
    assert key.live_visual_tokens == left
    assert second.usage.cached_tokens >= second.usage.stored_prefix_tokens and not second.rebuilt


@pytest.mark.parametrize("method", ["tome", "svd", "saliency"])
async def test_chosen_behind_the_vision_encoder(router: RouterClient, method: str) -> None:
    asked = navigator(policy="mosaic", cell=56, pruning={"method": method, "ratio": 0.5})
    one, two = [await router.create_session(asked) for _ in range(2)]
    first = screen(one.space.model)
    key, second = await play(router, one.id, [first, changed(first, 1)])
    assert key.usage.sent_tokens == key.live_visual_tokens == live(key) == HALF
    assert second.usage.cached_tokens >= second.usage.stored_prefix_tokens and not second.rebuilt
    (again,) = await play(router, two.id, [first])
    assert again.token_map == key.token_map  # a pure function of the picture


@pytest.mark.parametrize("method", ["uniform", "random", "flat", "evs", "ui_graph"])
async def test_chosen_from_pixels(router: RouterClient, method: str) -> None:
    session = await router.create_session(
        navigator(policy="mosaic", cell=56, pruning={"method": method, "ratio": 0.5})
    )
    first = screen(session.space.model)
    key, second = await play(router, session.id, [first, changed(first, 1)])
    exact = {"uniform": HALF, "random": HALF, "evs": SCREEN}  # it needs a screen before
    assert key.usage.sent_tokens == exact.get(method, key.usage.sent_tokens) <= SCREEN
    assert key.live_visual_tokens == key.usage.sent_tokens == live(key)
    assert second.usage.cached_tokens >= second.usage.stored_prefix_tokens and not second.rebuilt


async def test_a_turn_says_it_otherwise_and_asks_for_what_is_thin(router: RouterClient) -> None:
    session = await router.create_session(navigator(policy="mosaic", cell=56, preset="lean"))
    assert session.compression.eviction is not None
    first = screen(session.space.model)
    key = await router.turn(session.id, first)
    assert key.live_visual_tokens == SCREEN // 4
    whole = await router.turn(session.id, first, compression=Compression(), resend_thin=True)
    assert whole.usage.sent_tokens > 0 and whole.live_visual_tokens == SCREEN
    asked = Compression(pruning=Pruning(method="fastv"), eviction=Eviction(method="vtw"))
    last = await router.turn(session.id, changed(first, 1), compression=asked)
    assert last.live_visual_tokens == SCREEN - 4 + 2
    assert last.usage.cached_tokens >= last.usage.stored_prefix_tokens


async def test_a_thin_cell_that_an_action_aims_at_comes_back(router: RouterClient) -> None:
    for _ in range(16):  # until the model points to a cell that it has not all of
        session = await router.create_session(navigator(policy="mosaic", cell=56, preset="lean"))
        first = screen(session.space.model)
        key = await router.turn(session.id, first)
        if hasattr(key.model_action, "x") and not _whole(key):
            break
    assert key.model_action is not None
    again = await router.turn(session.id, first)
    (region,) = again.regions
    assert region.tokens <= 16 and region.left_tokens is None
    row, column = key.model_action.y // 28, key.model_action.x // 28
    assert again.token_map is not None
    sent = np.zeros(SCREEN, bool)
    sent[kept_tokens(again.token_map.sent, SCREEN)] = True
    assert sent.reshape(10, 8)[row, column]


def _whole(key: TurnResult) -> bool:
    """Whether all tokens of the cell are left that the action points to."""
    left = np.zeros(SCREEN, bool)
    left[kept_tokens(key.token_map.live, SCREEN)] = True
    row, column = key.model_action.y // 56 * 2, key.model_action.x // 56 * 2
    return bool(left.reshape(10, 8)[row : row + 2, column : column + 2].all())


async def test_a_run_draws_what_the_model_had(stack: Stack, tmp_path) -> None:
    code, out, _ = await command(
        stack, "run", "--scenario", "miniwob/click-test", "--seed", "3", "--max-turns", "1",
        "--policy", "mosaic", "--pruning", "fastv:0.5", "--recordings", str(tmp_path), "--json",
    )  # fmt: skip
    assert code in (0, 3), out
    assert json.loads(out)
    (recording,) = (path for path in tmp_path.iterdir() if path.is_dir())
    assert [path.name for path in (recording / "heatmaps").iterdir()] == ["0000.png"]
