"""The cost model against torch's own count of transformers' model, and by hand."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode
from transformers import Qwen2_5_VLTextConfig
from transformers.models.qwen2_5_vl.modeling_qwen2_5_vl import Qwen2_5_VLTextModel

from agentserve.core.errors import InvalidRequest
from agentserve.core.pruning import Eviction, Pruning
from agentserve.nano.store import nano_path
from agentserve.planner.cost import Cost, ModelShape, Prompt, cost_of, model_shape

NANO = ModelShape(
    layers=6,
    width=256,
    heads=4,
    kv_heads=2,
    head_size=64,
    mlp_width=704,
    vocabulary=2428,
    kv_number_bytes=2,
)
# Qwen2.5-0.5B, a real model of 24 layers
HALF_BILLION = ModelShape(24, 896, 14, 2, 64, 4864, 151936, 2)
SCREEN = Prompt(visual=960, text=128, voices=100)
FASTV = Pruning(method="fastv", ratio=0.5, layers=[2 / 24])


@pytest.fixture(scope="module")
def model() -> Qwen2_5_VLTextModel:
    config = Qwen2_5_VLTextConfig(
        **{
            "num_hidden_layers": NANO.layers,
            "hidden_size": NANO.width,
            "num_attention_heads": NANO.heads,
            "num_key_value_heads": NANO.kv_heads,
            "intermediate_size": NANO.mlp_width,
            "vocab_size": NANO.vocabulary,
            "rope_parameters": {"rope_type": "default", "mrope_section": [8, 12, 12]},
        },
        attn_implementation="eager",
    )
    with torch.device("meta"):
        return Qwen2_5_VLTextModel(config).eval()


@pytest.mark.parametrize(("prefix", "rows"), [(0, 1), (0, 300), (120, 77)])
def test_layers_are_what_torch_counts(model: Qwen2_5_VLTextModel, prefix: int, rows: int):
    def run(count: int, cache=None):
        return model(
            inputs_embeds=torch.empty(1, count, NANO.width, device="meta"),
            position_ids=torch.zeros(3, 1, count, dtype=torch.long, device="meta"),
            attention_mask={"full_attention": None},
            past_key_values=cache,
            use_cache=True,
        ).past_key_values

    cache = run(prefix) if prefix else None
    with FlopCounterMode(display=False) as counter:
        run(rows, cache)
    counted = counter.get_total_flops()
    cost = cost_of(NANO, Prompt(visual=0, text=rows, prefix=prefix))
    # the rotary angles are a product, too: one a layer pass, of a few thousandths
    assert cost.layers_flops == pytest.approx(counted, rel=1e-3)
    assert cost.choice_flops == 0


def test_the_nano_model_s_shape():
    config = json.loads((Path(nano_path()) / "config.json").read_text())
    assert model_shape(config) == NANO


def test_a_config_without_a_part_of_its_own_for_text():
    config = {
        "num_hidden_layers": 28,
        "hidden_size": 3584,
        "num_attention_heads": 28,
        "num_key_value_heads": 4,
        "intermediate_size": 18944,
        "vocab_size": 152064,
        "torch_dtype": "bfloat16",
    }
    shape = model_shape(config)
    assert (shape.head_size, shape.kv_token_bytes) == (128, 57344)
    for name in ("vocab_size", "torch_dtype"):
        with pytest.raises(InvalidRequest, match=name):
            model_shape({key: value for key, value in config.items() if key != name})
    with pytest.raises(InvalidRequest, match="int4"):
        model_shape(config | {"torch_dtype": "int4"})


def test_half_of_a_screen_dropped_behind_two_layers_of_a_real_model():
    plain, pruned = cost_of(HALF_BILLION, SCREEN), cost_of(HALF_BILLION, SCREEN, FASTV)
    assert pruned.prefill_flops < 0.6 * plain.prefill_flops
    assert pruned.choice_flops < 1e-4 * pruned.layers_flops
    assert (plain.visual_prefilled, pruned.visual_prefilled) == (960, 480)
    assert plain.kv_bytes - pruned.kv_bytes == 480 * HALF_BILLION.kv_token_bytes
    # the projections alone, which a model of any width has in this proportion
    linear = [2 * 1088 + 22 * 608, 24 * 1088]
    assert linear[0] / linear[1] < 0.6


@pytest.mark.parametrize(
    ("method", "left"), [("fastv", [48]), ("pyramid_drop", [76, 57, 43]), ("btp", [76, 57, 43])]
)
def test_layers_behind_a_stage_have_fewer_rows(method: str, left: list[int]):
    prompt = Prompt(visual=100, text=30, prefix=10)
    layers = [1, 2, 3][: len(left)]
    ratio = 1 - left[-1] / 100
    pruning = Pruning(method=method, ratio=ratio, layers=[layer / 6 for layer in layers])
    rows = [100] + [left[min(layer, len(left)) - 1] for layer in range(1, 6)]
    expected = sum(NANO.layer_flops(30 + n, 40 + n) for n in rows)
    cost = cost_of(NANO, prompt, pruning)
    assert (cost.layers_flops, cost.visual_prefilled) == (expected, left[-1])
    assert cost.kv_bytes == (40 + left[-1]) * NANO.kv_token_bytes


def test_what_is_chosen_before_the_model_is_never_computed():
    halved = cost_of(NANO, Prompt(visual=100, text=30), Pruning(method="uniform", ratio=0.5))
    assert halved == cost_of(NANO, Prompt(visual=50, text=30))


def kept(eviction: Eviction, pruning: Pruning | None = None) -> Cost:
    return cost_of(NANO, Prompt(visual=100, text=30, items=4, voices=20), pruning, eviction)


def test_evictions_change_what_stays_only():
    plain = cost_of(NANO, Prompt(visual=100, text=30, items=4, voices=20))
    for eviction, left in (
        (Eviction(method="vtw"), 8),
        (Eviction(method="uniform", keep=0.3), 30),
        (Eviction(method="random", keep=0.0), 4),
        (Eviction(method="look_m", keep=1.0), 100),
    ):
        cost = kept(eviction)
        assert (cost.layers_flops, cost.kv_bytes) == (plain.layers_flops, plain.kv_bytes)
        assert (cost.visual_prefilled, cost.visual_kept) == (100, left)
        assert cost.kv_bytes_kept == (30 + left) * NANO.kv_token_bytes
    assert kept(Eviction(method="random")).choice_flops == 0
    assert kept(Eviction(method="attention", rows=8)).choice_flops == 6 * 8 * 2 * 130 * 256


def test_an_eviction_keeps_no_more_than_a_pruning_has_left():
    pruning = Pruning(method="fastv", ratio=0.8)
    assert kept(Eviction(method="uniform", keep=0.5), pruning).visual_kept == 20
    assert kept(Eviction(method="uniform", keep=0.1), pruning).visual_kept == 10


def test_too_shallow():
    pruning = Pruning(method="fastv", layers=[0.99])
    with pytest.raises(InvalidRequest, match="no room"):
        cost_of(NANO, SCREEN, pruning)
