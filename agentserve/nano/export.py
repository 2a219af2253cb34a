"""Writes trained weights as an ordinary Qwen2.5-VL checkpoint: weights, tokenizer, processor."""

from __future__ import annotations

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


def export_checkpoint(weights: dict[str, torch.Tensor], folder: Path) -> Path:
    """Write a checkpoint in bf16 into ``folder``, which is made, and return it.

    ``weights`` are those of ``NanoNetwork.state_dict()``. ``transformers`` and SGLang load the
    folder like any Qwen2.5-VL. Raises RuntimeError when a weight is missing or of another shape.
    """
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer = _tokenizer()
    model = _model(tokenizer, weights)
    model.save_pretrained(folder)
    processor = Qwen2_5_VLProcessor(
        image_processor=Qwen2VLImageProcessor(**_pixels()),
        tokenizer=tokenizer,
        video_processor=Qwen2VLVideoProcessor(**_pixels()),
        chat_template=recipe.CHAT_TEMPLATE,
    )
    processor.save_pretrained(folder)
    return folder


def trained_weights(checkpoint: Path) -> dict[str, torch.Tensor]:
    """The network's weights in a training's checkpoint.pt, without the auxiliary heads."""
    state = torch.load(checkpoint, map_location="cpu", weights_only=True)["model"]
    return {name[2:]: weight for name, weight in state.items() if name.startswith("0.")}


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


def _model(
    tokenizer: PreTrainedTokenizerFast, weights: dict[str, torch.Tensor]
) -> Qwen2_5_VLForConditionalGeneration:
    ids = {token: tokenizer.convert_tokens_to_ids(token) for token in recipe.SPECIAL_TOKENS}
    ends = {"bos_token_id": ids["<|endoftext|>"], "eos_token_id": ids["<|im_end|>"]}
    config = Qwen2_5_VLConfig(
        text_config={**recipe.TEXT, **ends, "vocab_size": len(tokenizer)},
        vision_config=recipe.VISION,
        image_token_id=ids["<|image_pad|>"],
        video_token_id=ids["<|video_pad|>"],
        vision_start_token_id=ids["<|vision_start|>"],
        vision_end_token_id=ids["<|vision_end|>"],
        tie_word_embeddings=True,
        dtype="bfloat16",
        **ends,
    )
    with torch.device("meta"):
        model = Qwen2_5_VLForConditionalGeneration(config)
    whole = {name: weight.bfloat16() for name, weight in weights.items()}
    whole["lm_head.weight"] = whole["model.language_model.embed_tokens.weight"]
    model.load_state_dict(whole, assign=True)
    model.tie_weights()
    model.generation_config = GenerationConfig(
        do_sample=False,
        pad_token_id=ids["<|endoftext|>"],
        bos_token_id=ids["<|endoftext|>"],
        eos_token_id=[ids["<|im_end|>"], ids["<|endoftext|>"]],
    )
    return model
