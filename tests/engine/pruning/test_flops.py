"""What a worker counts, with and without pruning, against the cost model."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from transformers import AutoConfig, Qwen2_5_VLForConditionalGeneration

from agentserve.core.pruning import Eviction, Pruning
from agentserve.planner.cost import Cost, ModelShape, cost_of, model_shape
from agentserve.planner.cost import Prompt as Sizes

from ..items.asking import Worker
from .asking import SETTINGS, Logged, ask, ask_behind, ask_together, logged_worker
from .prompts import Prompt, large_prompt, open_prompts

pytestmark = pytest.mark.timeout(900)

DEEP = {
    # Qwen2.5-0.5B, a real model of 24 layers, at half its width: heads of its size, and its MLP's
    # and attention's share of the projections
    "num_hidden_layers": 24,
    "hidden_size": 448,
    "num_attention_heads": 7,
    "num_key_value_heads": 1,
    "head_dim": 64,
    "intermediate_size": 2432,
}
FASTV = Pruning(method="fastv", ratio=0.5, layers=[2 / 24])
SCREEN = 960
POOL = 1300


@pytest.fixture(scope="module")
def deep(checkpoint: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A random model of 24 layers, with all else of the small one's checkpoint."""
    folder = tmp_path_factory.mktemp("deep")
    shutil.copytree(checkpoint, folder, dirs_exist_ok=True)
    config = AutoConfig.from_pretrained(checkpoint)
    config.text_config.update(DEEP | {"layer_types": ["full_attention"] * 24})
    config.vision_config.out_hidden_size = DEEP["hidden_size"]
    torch.manual_seed(0)
    Qwen2_5_VLForConditionalGeneration(config).bfloat16().save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def deep_worker(deep: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Logged]:
    folder = tmp_path_factory.mktemp("counting")
    arguments = ("--max-total-tokens", str(POOL))
    with logged_worker(folder, deep, *arguments, count_flops=True) as worker:
        yield worker


def shape_of(folder: Path) -> ModelShape:
    return model_shape(json.loads((folder / "config.json").read_text()))


def sizes_of(prompt: Prompt) -> Sizes:
    visual = sum(map(len, prompt.open))
    return Sizes(
        visual=visual,
        text=len(prompt.layout.ids) - visual,
        items=len(prompt.open),
        voices=len(prompt.layout.ids) - 1 - int(prompt.open[-1][-1]),
    )


class TestHalfOfAScreen:
    """FastV behind layer 2 of 24, with a screen of 960 tokens."""

    def test_two_fifths_less_and_half_of_the_slots(self, deep: Path, deep_worker: Logged):
        prompt = large_prompt(deep_worker.worker, 1, SCREEN, pictures=1, text=90)
        text = len(prompt.layout.ids) - SCREEN
        assert prompt.pictures[0].image.size == (1120, 672)
        assert 90 < text <= 128
        plain = ask(deep_worker.worker, prompt)
        with deep_worker.steps() as steps:
            pruned = ask(deep_worker.worker, prompt, FASTV)
        assert pruned.outcome["prefill_flops"] < 0.6 * plain.outcome["prefill_flops"]
        (kept,) = prompt.kept(pruned.outcome)
        assert (len(kept), pruned.outcome["pruned"]) == (SCREEN // 2, SCREEN // 2)
        assert text + SCREEN // 2 < steps[0]["token"] <= text + SCREEN // 2 + 2
        for one, pruning in ((plain, None), (pruned, FASTV)):
            cost = cost_of(shape_of(deep), sizes_of(prompt), pruning)
            assert one.outcome["prefill_flops"] == cost.prefill_flops

    def test_another_request_takes_the_slots(self, deep_worker: Logged):
        worker = deep_worker.worker
        first = large_prompt(worker, 1, SCREEN, pictures=1, text=90)
        second = large_prompt(worker, 2, 240, pictures=1)
        assert len(first.layout.ids) + len(second.layout.ids) > POOL
        earlier, later = ask_behind(worker, (first, FASTV), second, 30)
        assert earlier["agentserve"]["pruned"] == SCREEN // 2
        assert later["request_finished_ts"] < earlier["request_finished_ts"]


@pytest.fixture(scope="module")
def counting(checkpoint: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Worker]:
    with logged_worker(tmp_path_factory.mktemp("counts"), checkpoint, count_flops=True) as logged:
        yield logged.worker


@pytest.mark.soak
class TestCostModel:
    """On the nano model's shape."""

    def cost(self, checkpoint: Path, prompt: Prompt, *settings) -> Cost:
        return cost_of(shape_of(checkpoint), sizes_of(prompt), *settings)

    @pytest.mark.parametrize("name", ["fastv", "fastv-8-rows", "pyramid_drop", "btp"])
    def test_is_what_is_counted(self, counting: Worker, checkpoint: Path, name: str):
        for prompt in open_prompts(counting, 10):
            counted = ask(counting, prompt, SETTINGS[name]).outcome["prefill_flops"]
            cost = self.cost(checkpoint, prompt, SETTINGS[name])
            assert cost.layers_flops < counted <= cost.prefill_flops
            if name != "btp":  # of which the candidates become fewer than the model's
                assert counted == cost.prefill_flops

    @pytest.mark.parametrize("name", ["sparsevlm", "sparsevlm-recycle"])
    def test_is_at_most_what_is_counted(self, counting: Worker, checkpoint: Path, name: str):
        """How many words have a say is known of the words only."""
        for prompt in open_prompts(counting, 10):
            counted = ask(counting, prompt, SETTINGS[name]).outcome["prefill_flops"]
            cost = self.cost(checkpoint, prompt, SETTINGS[name])
            assert cost.layers_flops < counted <= cost.prefill_flops
            assert counted > 0.97 * cost.prefill_flops

    def test_an_eviction_by_attention(self, counting: Worker, checkpoint: Path):
        eviction = Eviction(method="attention", rows=8)
        for prompt in open_prompts(counting, 5):
            counted = ask(counting, prompt, eviction=eviction).outcome["prefill_flops"]
            assert counted == self.cost(checkpoint, prompt, None, eviction).prefill_flops

    def test_prompts_that_share_a_batch_are_not_counted(self, counting: Worker):
        prompts = open_prompts(counting, 4)
        answers = ask_together(counting, [(prompt, FASTV) for prompt in prompts])
        outcomes = [each.outcome for each in answers]
        assert [outcome["prefill_flops"] for outcome in outcomes].count(None) >= 3
