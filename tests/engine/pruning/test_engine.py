"""The methods inside a real worker's model, against a reference of their own."""

from __future__ import annotations

import random

import pytest

from agentserve.core.pruning import Pruning

from ..items.asking import Worker
from .asking import SETTINGS, Judge, Logged, ask, ask_together
from .prompts import open_prompts

pytestmark = pytest.mark.timeout(900)

FEW, MANY = 6, 50
COUNTS = [FEW, pytest.param(MANY, marks=[pytest.mark.soak, pytest.mark.timeout(3600)])]


@pytest.mark.parametrize("count", COUNTS)
@pytest.mark.parametrize("name", SETTINGS)
def test_alone(worker: Worker, judge: Judge, name: str, count: int):
    for prompt in open_prompts(worker, count):
        judge.check(prompt, SETTINGS[name], ask(worker, prompt, SETTINGS[name]))


@pytest.mark.parametrize("count", COUNTS)
def test_four_at_once(wide: Logged, judge: Judge, count: int, record_property):
    """Every setting, and none, with ``count`` prompts each, mixed."""
    prompts = open_prompts(wide.worker, count)
    asked = [(p, pruning) for p in prompts for pruning in (*SETTINGS.values(), None)]
    random.Random(count).shuffle(asked)
    with wide.batches() as batches:
        for at in range(0, len(asked), 4):
            together = asked[at : at + 4]
            answers = ask_together(wide.worker, together)
            for (prompt, pruning), one in zip(together, answers, strict=True):
                judge.check(prompt, pruning, one)
    fours = sum(batch["new-seq"] == 4 for batch in batches)
    record_property("batches of four", fours)
    assert fours > len(asked) // 16


@pytest.mark.parametrize("method", ["fastv", "pyramid_drop", "btp", "sparsevlm"])
def test_nothing_dropped_is_the_same_bit_for_bit(wide: Logged, method: str):
    for prompt in open_prompts(wide.worker, 3):
        plain = ask(wide.worker, prompt).answer
        one = ask(wide.worker, prompt, Pruning(method=method, ratio=0))
        assert (one.answer.ids, one.answer.top) == (plain.ids, plain.top)
        assert (one.outcome["pruned"], one.outcome["unchosen"]) == (0, None)
