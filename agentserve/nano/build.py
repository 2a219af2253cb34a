"""Builds the nano model's checkpoint: random but seeded weights, tokenizer, processor.

    python -m agentserve.nano.build FOLDER

Two builds are equal byte for byte: every parameter is drawn from a generator seeded by its name,
as uniform numbers, which (unlike normal ones) no machine rounds differently.
"""

from __future__ import annotations

import hashlib
import os
import sys
from pathlib import Path
from typing import Any

import torch
from transformers import (
    GenerationConfig,
    PreTrainedTokenizerFast,
    Qwen2_5_VLConfig,
    Qwen2_5_VLForConditionalGeneration,
    Qwen2_5_VLProcessor,
    Qwen2VLImageProcessor,
    Qwen2VLVideoProcessor,
)

from agentserve.nano import recipe
from agentserve.nano.tokenizer import build_tokenizer


def build_nano(folder: Path) -> Path:
    """Write the checkpoint into ``folder``, which is made, and return it.

    ``transformers`` and SGLang load it like any Qwen2.5-VL.
    """
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer = _tokenizer()
    model = _model(tokenizer)
    model.save_pretrained(folder)
    processor = Qwen2_5_VLProcessor(
        image_processor=Qwen2VLImageProcessor(**_pixels()),
        tokenizer=tokenizer,
        video_processor=Qwen2VLVideoProcessor(**_pixels()),
        chat_template=recipe.CHAT_TEMPLATE,
    )
    processor.save_pretrained(folder)
    return folder


def _pixels() -> dict[str, Any]:
    return {
        "patch_size": recipe.VISION["patch_size"],
        "merge_size": recipe.VISION["spatial_merge_size"],
        "temporal_patch_size": recipe.VISION["temporal_patch_size"],
        "size": {"shortest_edge": recipe.MIN_PIXELS, "longest_edge": recipe.MAX_PIXELS},
    }


def _tokenizer() -> PreTrainedTokenizerFast:
    return PreTrainedTokenizerFast(
        tokenizer_object=build_tokenizer(),
        eos_token="<|im_end|>",
        pad_token="<|endoftext|>",
        additional_special_tokens=list(recipe.SPECIAL_TOKENS),
        model_max_length=recipe.CONTEXT_LENGTH,
        clean_up_tokenization_spaces=False,
        chat_template=recipe.CHAT_TEMPLATE,
    )


def _model(tokenizer: PreTrainedTokenizerFast) -> Qwen2_5_VLForConditionalGeneration:
    ids = {token: tokenizer.convert_tokens_to_ids(token) for token in recipe.SPECIAL_TOKENS}
    ends = {"bos_token_id": ids["<|endoftext|>"], "eos_token_id": ids["<|im_end|>"]}
    config = Qwen2_5_VLConfig(
        text_config={**recipe.TEXT, **ends, "vocab_size": len(tokenizer)},
        vision_config=recipe.VISION,
        image_token_id=ids["<|image_pad|>"],
        video_token_id=ids["<|video_pad|>"],
        vision_start_token_id=ids["<|vision_start|>"],
        vision_end_token_id=ids["<|vision_end|>"],
        tie_word_embeddings=False,
        dtype="bfloat16",
        **ends,
    )
    with torch.device("meta"):
        model = Qwen2_5_VLForConditionalGeneration(config)
    silent = [ids[token] for token in recipe.SPECIAL_TOKENS if token not in recipe.MAY_BE_WRITTEN]
    weights = {name: _weight(name, meta.shape) for name, meta in model.state_dict().items()}
    weights["lm_head.weight"][silent] = 0
    model.load_state_dict({name: w.bfloat16() for name, w in weights.items()}, assign=True)
    model.generation_config = GenerationConfig(
        do_sample=False,
        pad_token_id=ids["<|endoftext|>"],
        bos_token_id=ids["<|endoftext|>"],
        eos_token_id=[ids[token] for token in recipe.MAY_BE_WRITTEN],
    )
    return model


def _weight(name: str, shape: torch.Size) -> torch.Tensor:
    """fp32 values of one parameter: ones for a norm, else uniform with the recipe's deviation."""
    if len(shape) == 1 and name.endswith(".weight"):
        return torch.ones(shape)
    scale, by_fan_in = next(
        (scale, by_fan_in) for end, scale, by_fan_in in recipe.WEIGHT_SCALES if name.endswith(end)
    )
    if by_fan_in:
        scale /= (shape.numel() / shape[0]) ** 0.5
    digest = hashlib.sha256(f"{recipe.SEED}/{name}".encode()).digest()
    generator = torch.Generator().manual_seed(int.from_bytes(digest[:7], "big"))
    return (torch.rand(shape, generator=generator) - 0.5) * (scale * 12**0.5)


if __name__ == "__main__":
    build_nano(Path(sys.argv[1]))
    # sentencepiece 0.2.1, which transformers loads, can crash the interpreter's orderly exit
    os._exit(0)
