"""Asking a worker for the log probabilities of an answer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import httpx
import torch
from tokenizers import Tokenizer

NEW_TOKENS = 4


@dataclass(frozen=True)
class Answer:
    """A greedy answer of NEW_TOKENS tokens."""

    ids: list[int]
    top: list[list[tuple[float, int]]]
    """For each token of the answer the likeliest ones, (log probability, id)."""
    prompt_tokens: int
    cached: int

    def error(self, logprobs: torch.Tensor) -> float:
        """Largest difference to a reference [NEW_TOKENS, vocabulary]."""
        return max(
            abs(value - float(logprobs[i, token]))
            for i, likeliest in enumerate(self.top)
            for value, token in likeliest
        )

    def distance(self, other: Answer) -> float:
        """Largest difference to the first token's likeliest ones in another answer."""
        there = {token: value for value, token in other.top[0]}
        return max(
            (abs(value - there[token]) for value, token in self.top[0] if token in there),
            default=float("inf"),
        )


@dataclass(frozen=True)
class Worker:
    client: httpx.Client
    tokenizer: Tokenizer

    def ids(self, text: str) -> list[int]:
        return self.tokenizer.encode(text, add_special_tokens=False).ids

    def image_token(self) -> int:
        return self.tokenizer.token_to_id("<|image_pad|>")

    def flush(self) -> None:
        self.client.post("/flush_cache").raise_for_status()

    def post(self, text: str | list, images: Sequence, **fields: Any) -> httpx.Response:
        """One call of /generate; ``text`` is tokenised here if need be."""
        return self.client.post("/generate", json=self.body(text, images, **fields))

    def body(self, text: str | list, images: Sequence, **fields: Any) -> dict[str, Any]:
        """Its body."""
        sampling = {"temperature": 0, "max_new_tokens": NEW_TOKENS, "ignore_eos": True}
        return {
            "input_ids": self.ids(text) if isinstance(text, str) else text,
            "image_data": list(images),
            "sampling_params": sampling | fields.pop("sampling_params", {}),
            "return_logprob": True,
            "top_logprobs_num": 8,
            **fields,
        }

    def ask(self, text: str | list[int], images: Sequence[str]) -> Answer:
        return answer_of(self.post(text, images).raise_for_status().json())

    def ask_together(self, prompts: Sequence[tuple[str, Sequence[str]]]) -> list[Answer]:
        """Ask several prompts, (text, images) each, in one batch with an empty prefix cache."""
        self.flush()
        response = self.post(
            [self.ids(text) for text, _ in prompts], [list(images) for _, images in prompts]
        )
        return [answer_of(answer) for answer in response.raise_for_status().json()]

    def ask_cold(self, text: str | list[int], images: Sequence[str]) -> Answer:
        """Ask with an empty prefix cache."""
        self.flush()
        return self.ask(text, images)


def answer_of(body: dict[str, Any]) -> Answer:
    """Of what /generate returned."""
    meta = body["meta_info"]
    return Answer(
        ids=body["output_ids"],
        top=[[(v, t) for v, t, _ in top] for top in meta["output_top_logprobs"]],
        prompt_tokens=meta["prompt_tokens"],
        cached=meta["cached_tokens"],
    )
