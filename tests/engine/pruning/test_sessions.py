"""Sessions of several turns, each pruned behind what is left of the last ones."""

from __future__ import annotations

import random

import numpy as np
import pytest

from agentserve.core.pruning import Eviction, Pruning, stage_layers

from ..eviction.sessions import slots_in_use
from ..items.asking import Worker
from .asking import DEPTH, NINE, ROUNDING, SETTINGS, Asked, Judge, ask, asked
from .prompts import Prompt, next_prompt, open_prompts
from .reference import Cache, Expected, PrunedReference, merge

pytestmark = pytest.mark.timeout(900)

METHODS = ["vtw", "attention", "look_m", "uniform", "random"]
TURNS = 4


def test_what_is_chosen_does_not_depend_on_what_is_cached(worker: Worker, judge: Judge):
    prompts = [p for p in open_prompts(worker, 20) if not p.pictures[0].chosen]
    for prompt in prompts[:3]:
        ask(worker, prompt, SETTINGS["pyramid_drop"])
        for name in ("fastv", "pyramid_drop", "sparsevlm-recycle"):
            response = worker.post(
                prompt.ids, prompt.sent(SETTINGS[name]), sampling_params=NINE
            ).raise_for_status()
            again = asked(response.json())
            assert again.answer.cached == prompt.open[0][0]
            judge.check(prompt, SETTINGS[name], again)


def settings(draw: random.Random) -> tuple[Pruning | None, Eviction | None]:
    pruning = draw.choice([None, *SETTINGS.values()])
    rows = draw.choice((1, 8))
    eviction = Eviction(method=draw.choice(METHODS), keep=draw.choice((0.2, 0.5)), rows=rows)
    return pruning, (eviction if pruning is None or draw.random() < 0.6 else None)


@pytest.mark.parametrize(
    "seed",
    [*range(3), *(pytest.param(seed, marks=pytest.mark.soak) for seed in range(3, 60))],
)
def test_turns(worker: Worker, pruned_reference: PrunedReference, seed: int):
    draw = random.Random(seed)
    worker.flush()
    (prompt,) = open_prompts(worker, 1, first=1000 + 7 * seed)
    cache: Cache | None = None
    for turn in range(TURNS):
        pruning, eviction = settings(draw)
        response = worker.post(
            prompt.ids, prompt.sent(pruning, eviction), sampling_params=NINE
        ).raise_for_status()
        one = asked(response.json())
        known = 0 if cache is None else cache[0][0].shape[1]
        assert (one.answer.cached, one.outcome["rebuilt"]) == (known, False)
        stages = [] if pruning is None else stage_layers(pruning, DEPTH)
        rows = 1 if eviction is None else eviction.rows
        expected = pruned_reference.answer(prompt, pruning, stages, one.answer.ids, rows, cache)
        assert one.answer.error(expected.logprobs) < ROUNDING, (turn, pruning, eviction)
        cache = settled(prompt, one, expected, eviction)
        assert slots_in_use(worker.client) == cache[0][0].shape[1]
        prompt = next_prompt(worker, prompt, one.outcome, one.answer.ids, 5000 + 10 * seed + turn)


def settled(prompt: Prompt, one: Asked, expected: Expected, eviction: Eviction | None) -> Cache:
    """What is left of the cache once the turn is over: of the keep sets that the worker tells."""
    candidates = np.concatenate(prompt.open)
    places = zip(prompt.open, prompt.kept(one.outcome), strict=True)
    kept = np.concatenate([span[left] for span, left in places])
    assert np.isin(kept, candidates[expected.left]).all()
    if eviction is None:
        assert kept.tolist() == candidates[expected.left].tolist()
    leaving = np.setdiff1d(candidates[expected.left], kept)
    if eviction is not None and eviction.method == "look_m" and len(leaving):
        merge(expected, leaving, kept)
    answered = np.arange(len(expected.rows), expected.cache[0][0].shape[1])
    stays = np.flatnonzero(~np.isin(expected.rows, leaving))
    index = np.concatenate((stays, answered))
    return [(k[:, index], v[:, index]) for k, v in expected.cache]
