"""Costs of one prompt beside each other; what they are is tested in test_cost."""

from __future__ import annotations

import pytest

from agentserve.core.errors import InvalidRequest
from agentserve.core.pruning import Compression, Eviction, Pruning
from agentserve.planner.cost import ModelShape, Prompt
from agentserve.planner.forecast import forecasts

SHAPE = ModelShape(24, 896, 14, 2, 64, 4864, 151936, 2)
OFF = ("off", Compression())


def test_ratios_are_to_the_first():
    half = Compression(pruning=Pruning(method="fastv", ratio=0.5, layers=[2 / 24]))
    after = Compression(eviction=Eviction(method="uniform", keep=0.25))
    prompt = Prompt(visual=960, text=128, voices=100)
    off, pruned, evicted = forecasts(SHAPE, prompt, [OFF, ("half", half), ("after", after)])
    assert (off.flops_ratio, off.kv_kept_ratio) == (1, 1)
    assert pruned.flops_ratio == pytest.approx(pruned.prefill_flops / off.prefill_flops)
    assert pruned.flops_ratio < 0.6
    assert (pruned.visual_prefilled, pruned.visual_kept) == (480, 480)
    assert evicted.flops_ratio == 1
    assert (evicted.visual_prefilled, evicted.visual_kept) == (960, 240)
    assert evicted.kv_kept_ratio == (128 + 240) / (128 + 960)


@pytest.mark.parametrize(
    ("prompt", "words"),
    [
        (Prompt(visual=3, text=8, items=4), "3 visual tokens cannot be of 4 items"),
        (Prompt(visual=3, text=8, voices=9), "9 tokens behind the last item, of 8"),
    ],
)
def test_a_prompt_that_cannot_be(prompt: Prompt, words: str):
    with pytest.raises(InvalidRequest, match=words):
        forecasts(SHAPE, prompt, [OFF])
