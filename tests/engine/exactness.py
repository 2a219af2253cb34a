"""Next-token log-probabilities of one set of prompts, to be compared bit for bit."""

from __future__ import annotations

import base64
import io

import httpx
import numpy as np
from PIL import Image
from tokenizers import Tokenizer

SCREEN = "<|vision_start|><|image_pad|><|vision_end|>"
PROMPTS: dict[str, tuple[str, tuple[int, ...]]] = {
    "text": ("<|im_start|>user\nWhat is an agent?<|im_end|>\n<|im_start|>assistant\n", ()),
    "text and image": (f"<|im_start|>user\n{SCREEN}Click the button.<|im_end|>\n", (1,)),
    "two images": (f"<|im_start|>user\n{SCREEN}then{SCREEN}What changed?<|im_end|>\n", (2, 3)),
    "an image again": (f"<|im_start|>user\n{SCREEN}and now?<|im_end|>\n", (1,)),
}
"""Name to (text, seeds of its images)."""


def screen(seed: int) -> str:
    """A 224 x 280 px picture of coloured blocks as a data URL, one that no other test sends.

    A worker keeps a picture's embedding, and encodes together those it has not: of two pictures
    one of which it knows the other is encoded alone, which rounds otherwise.
    """
    blocks = np.random.default_rng((0xE8AC7, seed)).integers(0, 256, (20, 16, 3), dtype=np.uint8)
    image = Image.fromarray(blocks).resize((224, 280), Image.Resampling.NEAREST)
    buffer = io.BytesIO()
    image.save(buffer, "PNG")
    return "data:image/png;base64," + base64.b64encode(buffer.getvalue()).decode()


async def logprobs(url: str, tokenizer: Tokenizer, prompt: str) -> dict:
    """Log-probabilities of every prompt token and of eight greedy ones, from an empty cache."""
    text, seeds = PROMPTS[prompt]
    body = {
        "input_ids": tokenizer.encode(text, add_special_tokens=False).ids,
        "sampling_params": {"temperature": 0, "max_new_tokens": 8, "ignore_eos": True},
        "return_logprob": True,
        "logprob_start_len": 0,
        "top_logprobs_num": 4,
    }
    if seeds:
        body["image_data"] = [screen(seed) for seed in seeds]
    async with httpx.AsyncClient(base_url=url, timeout=120) as client:
        (await client.post("/flush_cache")).raise_for_status()
        answer = (await client.post("/generate", json=body)).raise_for_status().json()
    meta = answer["meta_info"]
    names = (
        "input_token_logprobs",
        "output_token_logprobs",
        "input_top_logprobs",
        "output_top_logprobs",
    )
    return {
        "output_ids": answer["output_ids"],
        "prompt_tokens": meta["prompt_tokens"],
        **{name: meta[name] for name in names},
    }
