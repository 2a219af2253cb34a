"""What the nano model is made of: sizes, special tokens, the bins of its coordinates."""

from __future__ import annotations

from typing import Any

CONTEXT_LENGTH = 32_768
BIN = 4
"""Edge, in px, of the squares on whose middles the model points; a coordinate is one token."""
MAX_COORDINATE = 1120
MARKS = ('"', "(", "#", "|", "-", "=", "+")
"""Marks that are one token together with a space before them."""

# One entry per token that the Qwen2.5-VL tokenizer treats as special, in its order.
SPECIAL_TOKENS = (
    "<|endoftext|>", "<|im_start|>", "<|im_end|>",
    "<|object_ref_start|>", "<|object_ref_end|>", "<|box_start|>", "<|box_end|>",
    "<|quad_start|>", "<|quad_end|>",
    "<|vision_start|>", "<|vision_end|>", "<|vision_pad|>", "<|image_pad|>", "<|video_pad|>",
)  # fmt: skip
MAY_BE_WRITTEN = ("<|endoftext|>", "<|im_end|>")
"""The special tokens that an answer may hold."""

GRID = 28
"""Edge of one merged visual token, in px: patches of 14 px, merged two by two."""
MIN_PIXELS = 4 * GRID * GRID
MAX_PIXELS = 2048 * GRID * GRID
"""A screen whose sides are multiples of GRID and whose area lies between the two is never resized;
1344 x 896 px are 1,536 tokens."""

TEXT: dict[str, Any] = {
    "hidden_size": 256,
    "intermediate_size": 704,
    "num_hidden_layers": 6,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 64,
    "rms_norm_eps": 1e-6,
    "max_position_embeddings": CONTEXT_LENGTH,
    # of the 32 rotary frequencies of a head: time, height, width
    "rope_parameters": {
        "rope_type": "default",
        "rope_theta": 1_000_000.0,
        "mrope_section": [8, 12, 12],
    },
    "tie_word_embeddings": True,
}
VISION: dict[str, Any] = {
    "depth": 6,
    "hidden_size": 192,
    "intermediate_size": 512,
    "num_heads": 3,
    "out_hidden_size": TEXT["hidden_size"],
    "patch_size": 14,
    "spatial_merge_size": 2,
    "temporal_patch_size": 2,
    "window_size": 112,
    "fullatt_block_indexes": [5],
    "tokens_per_second": 2,
}

CHAT_TEMPLATE = (
    "{%- for message in messages -%}"
    "{{- '<|im_start|>' + message['role'] + '\\n' -}}"
    "{%- if message['content'] is string -%}"
    "{{- message['content'] -}}"
    "{%- else -%}"
    "{%- for part in message['content'] -%}"
    "{%- if part['type'] in ('image', 'image_url') -%}"
    "{{- '<|vision_start|><|image_pad|><|vision_end|>' -}}"
    "{%- elif part['type'] == 'video' -%}"
    "{{- '<|vision_start|><|video_pad|><|vision_end|>' -}}"
    "{%- else -%}"
    "{{- part['text'] -}}"
    "{%- endif -%}"
    "{%- endfor -%}"
    "{%- endif -%}"
    "{{- '<|im_end|>\\n' -}}"
    "{%- endfor -%}"
    "{%- if add_generation_prompt -%}"
    "{{- '<|im_start|>assistant\\n' -}}"
    "{%- endif -%}"
)
