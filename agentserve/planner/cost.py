"""What a prompt costs the language model under a pruning and an eviction, from its config.json.

Operations are those of matrix products, two a multiplication with its addition, as torch counts
them. Attention is a full product of queries and keys, though half of it is masked: on long prompts
without a prefix that is twice what a good kernel does. Norms, activations and the vision encoder
are left out.

    rows     │ prefix │ text, visual tokens: computed in layers 0 … K-1 │
    keys     │ prefix │ text, visual tokens                            │
    behind K │ prefix │ text, visual tokens that are left │              a stage before layer K
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from agentserve.core.errors import InvalidRequest
from agentserve.core.pruning import Eviction, Pruning, kept_count, stage_layers, stage_shares

_BYTES = {"float32": 4, "bfloat16": 2, "float16": 2, "float8_e4m3fn": 1, "float8_e5m2": 1}


@dataclass(frozen=True)
class ModelShape:
    """The sizes of a language model of Qwen2's kind."""

    layers: int
    width: int
    heads: int
    kv_heads: int
    head_size: int
    mlp_width: int
    vocabulary: int
    kv_number_bytes: int
    """Of one number in the KV cache."""

    @property
    def query_width(self) -> int:
        return self.heads * self.head_size

    @property
    def kv_width(self) -> int:
        """Of keys, and of values."""
        return self.kv_heads * self.head_size

    @property
    def kv_token_bytes(self) -> int:
        """KV of one token in all layers."""
        return 2 * self.layers * self.kv_width * self.kv_number_bytes

    def qkv_flops(self, rows: int) -> int:
        """A layer's queries, keys and values of so many rows."""
        return 2 * rows * self.width * (self.query_width + 2 * self.kv_width)

    def scores_flops(self, rows: int, keys: int) -> int:
        """Products of so many rows' queries with keys, in one layer."""
        return 2 * rows * keys * self.query_width

    def layer_flops(self, rows: int, keys: int) -> int:
        """A whole layer."""
        attention = 2 * self.scores_flops(rows, keys)
        output = 2 * rows * self.query_width * self.width
        mlp = 3 * 2 * rows * self.width * self.mlp_width
        return self.qkv_flops(rows) + attention + output + mlp


@dataclass(frozen=True)
class Prompt:
    """What is to be computed, in tokens."""

    visual: int
    """New visual tokens."""
    text: int
    """Other new tokens."""
    prefix: int = 0
    """Tokens before them whose KV is there."""
    items: int = 1
    """Of how many items the visual ones are; of about one size."""
    voices: int = 1
    """How many of the other tokens are behind the last item."""


@dataclass(frozen=True)
class Cost:
    layers_flops: int
    """Of the layers, for the rows that are in them."""
    choice_flops: int
    """Of what a method looks at to choose; at most so many."""
    head_flops: int
    """Of the logits of the answer's first token."""
    visual_prefilled: int
    """Visual tokens that are left when the answer begins."""
    visual_kept: int
    """And once it is complete."""
    kv_bytes: int
    """Of the prompt, its prefix included, when the answer begins."""
    kv_bytes_kept: int
    """And once it is complete, without the answer's own."""

    @property
    def prefill_flops(self) -> int:
        """What ``agentserve worker --count-flops`` counts."""
        return self.layers_flops + self.choice_flops


def model_shape(config: Mapping[str, Any]) -> ModelShape:
    """From a checkpoint's config.json; ``text_config`` when it has one. Its KV is of the weights'
    type. Raises InvalidRequest for one that says too little, or has a type that is not known."""
    text = {**config, **config.get("text_config", {})}
    try:
        dtype = text.get("dtype") or text["torch_dtype"]
        return ModelShape(
            layers=text["num_hidden_layers"],
            width=text["hidden_size"],
            heads=text["num_attention_heads"],
            kv_heads=text.get("num_key_value_heads") or text["num_attention_heads"],
            head_size=text.get("head_dim") or text["hidden_size"] // text["num_attention_heads"],
            mlp_width=text["intermediate_size"],
            vocabulary=text["vocab_size"],
            kv_number_bytes=_BYTES[dtype],
        )
    except KeyError as error:
        raise InvalidRequest(
            f"the model's config.json does not tell, or not known: {error}"
        ) from None


def cost_of(
    shape: ModelShape,
    prompt: Prompt,
    pruning: Pruning | None = None,
    eviction: Eviction | None = None,
) -> Cost:
    """Raises InvalidRequest when the model is too shallow for the pruning's stages."""
    visual = prompt.visual
    if pruning is not None and not pruning.inside:
        visual = prompt.items * kept_count(pruning, prompt.visual // prompt.items)
    stages = _stages(shape, prompt, visual, pruning)
    layers = choice = 0
    for layer in range(shape.layers):
        if layer in stages:
            assert pruning is not None
            rows = prompt.text + visual
            choice += _choice_flops(shape, prompt, pruning, rows, visual, stages[layer])
            visual = stages[layer]
        rows = prompt.text + visual
        layers += shape.layer_flops(rows, prompt.prefix + rows)
        if eviction is not None and eviction.method in ("attention", "look_m"):
            voices = min(eviction.rows, prompt.voices)
            choice += shape.scores_flops(voices, prompt.prefix + rows)
    kept = _kept(prompt, visual, eviction)
    tokens = prompt.prefix + prompt.text
    return Cost(
        layers_flops=layers,
        choice_flops=choice,
        head_flops=2 * shape.width * shape.vocabulary,
        visual_prefilled=visual,
        visual_kept=kept,
        kv_bytes=(tokens + visual) * shape.kv_token_bytes,
        kv_bytes_kept=(tokens + kept) * shape.kv_token_bytes,
    )


def _stages(
    shape: ModelShape, prompt: Prompt, visual: int, pruning: Pruning | None
) -> dict[int, int]:
    """Before which layer how many visual tokens are left."""
    if pruning is None or not pruning.inside or pruning.ratio == 0:
        return {}
    layers = stage_layers(pruning, shape.layers)
    shares = stage_shares(pruning, len(layers))
    least = min(visual, prompt.items * pruning.min_tokens)
    return {
        layer: max(least, visual - int(visual * (1 - share) + 1e-9))
        for layer, share in zip(layers, shares, strict=True)
    }


def _choice_flops(
    shape: ModelShape, prompt: Prompt, pruning: Pruning, rows: int, visual: int, keep: int
) -> int:
    """Of one stage, with ``rows`` in the batch, of which ``visual`` are to choose from."""
    keys = prompt.prefix + rows
    if pruning.method == "fastv":
        return shape.scores_flops(min(pruning.rows, prompt.voices), keys)
    if pruning.method == "pyramid_drop":  # by the next layer's queries and keys, made once more
        return shape.qkv_flops(rows) + shape.scores_flops(1, keys)
    if pruning.method == "btp":  # the candidates' likeness to each that is chosen, in two stages
        return 2 * visual * keep * shape.width + shape.scores_flops(1, keys)
    likeness = 2 * prompt.visual * prompt.voices * shape.width
    passes = 2 if pruning.adaptive else 1
    return likeness + passes * shape.scores_flops(prompt.voices, keys)


def _kept(prompt: Prompt, visual: int, eviction: Eviction | None) -> int:
    if eviction is None:
        return visual
    if eviction.method == "vtw":
        return min(visual, 2 * prompt.items)
    share = prompt.visual - int(prompt.visual * (1 - eviction.keep) + 1e-9)
    return min(visual, max(share, prompt.items))
