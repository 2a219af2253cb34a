"""The session backend of SGLang's frontend: token ids and many images per prompt."""

from __future__ import annotations

from typing import Any

from sglang.lang.backend.base_backend import BaseBackend
from sglang.lang.backend.runtime_endpoint import RuntimeEndpoint, compute_normalized_prompt_logprobs
from sglang.lang.choices import ChoicesDecision, ChoicesSamplingMethod
from sglang.lang.interpreter import StreamExecutor
from sglang.lang.ir import SglSamplingParams

from agentserve.core.errors import ProgramFailed, WorkerLost
from agentserve.core.sessions import CallUsage
from agentserve.lang.prompt import Prompt, kept_ids
from agentserve.lang.worker import WorkerClient

_LOGPROB_FIELDS = (
    "return_logprob",
    "logprob_start_len",
    "top_logprobs_num",
    "return_text_in_logprobs",
)


class SessionBackend(BaseBackend):
    """Sends one turn's calls to its worker. One instance per turn.

    The calls raise what WorkerClient raises, and ProgramFailed for what a session cannot do.
    """

    def __init__(
        self, worker: WorkerClient, prompt: Prompt, images: dict[str, str], max_tokens: int
    ) -> None:
        """``images``: base64 of every blob the prompt may name. ``max_tokens``: limit of a call."""
        super().__init__()
        self._worker = worker
        self._prompt = prompt
        self._images = images
        self._max_tokens = max_tokens
        self.calls: list[CallUsage] = []

    # dtype=int and its like become regular expressions as in the stock backend
    _handle_dtype_to_regex = RuntimeEndpoint._handle_dtype_to_regex

    def generate(
        self, s: StreamExecutor, sampling_params: SglSamplingParams
    ) -> tuple[str, dict[str, Any]]:
        """The text and SGLang's meta info, with ``kept_ids`` added (see prompt.kept_ids)."""
        self._handle_dtype_to_regex(sampling_params)
        if sampling_params.n != 1:
            raise ProgramFailed(f"n must be 1 inside a turn, got {sampling_params.n}")
        options = sampling_params.to_srt_kwargs()
        limit = min(options["max_new_tokens"], self._max_tokens)
        # The KV of the last token is never computed. One token more than wanted, and an answer
        # that is cut at its limit is cached as a whole all the same.
        options["max_new_tokens"] = limit + 1
        # Any special token ends a generation: none of them is text.
        options["stop_token_ids"] = [
            *(options["stop_token_ids"] or ()),
            *sorted(self._prompt.tokenizer.special_ids),
        ]
        extra = {
            name: value
            for name in _LOGPROB_FIELDS
            if (value := getattr(sampling_params, name)) is not None
        }
        answer = self._call([[]], options, extra)[0]
        text, ids, meta = answer["text"], answer["output_ids"], answer["meta_info"]
        if meta["finish_reason"]["type"] == "length" and len(ids) > limit:
            ids = ids[:limit]
            text = self._prompt.tokenizer.decode(ids)
        meta["kept_ids"] = kept_ids(ids, text, meta["finish_reason"], self._prompt.tokenizer)
        return text, meta

    def select(
        self,
        s: StreamExecutor,
        choices: list[str],
        temperature: float,
        choices_method: ChoicesSamplingMethod,
    ) -> ChoicesDecision:
        """Pick a choice by the log probabilities of its tokens behind the prompt.

        The choices are tokenised on their own, as they will stand in the transcript.
        """
        if temperature > 1e-5:
            raise ProgramFailed(f"select needs temperature 0, got {temperature:g}")
        tails = [self._prompt.tokenizer.encode(choice) for choice in choices]
        if not all(tails):
            raise ProgramFailed("select got an empty choice")
        options = {"max_new_tokens": 0, "temperature": 0}
        # The prefix on its own first: with log probabilities asked for, a request reuses the
        # cache, but none of its siblings can wait for another to fill it.
        prompt_tokens = self._call([[]], options)[0]["meta_info"]["prompt_tokens"]
        extra = {
            "return_logprob": True,
            "return_text_in_logprobs": True,
            "logprob_start_len": prompt_tokens - 1,
        }
        answers = self._call(tails, options, extra)
        scores = [_tail_logprobs(a, tail) for a, tail in zip(answers, tails, strict=True)]
        unconditional = None
        if choices_method.requires_unconditional_logprobs:
            plain = self._worker.generate(
                {
                    "input_ids": tails,
                    "sampling_params": options,
                    "return_logprob": True,
                    "logprob_start_len": 0,
                }
            )
            unconditional = [a["meta_info"]["input_token_logprobs"] for a in plain]
            self._count(plain)
        return choices_method(
            choices=choices,
            normalized_prompt_logprobs=[compute_normalized_prompt_logprobs(s) for s in scores],
            input_token_logprobs=scores,
            output_token_logprobs=[a["meta_info"]["output_token_logprobs"] for a in answers],
            unconditional_token_logprobs=unconditional,
        )

    def _call(
        self,
        tails: list[list[int]],
        options: dict[str, Any],
        extra: dict[str, Any] | None = None,
    ) -> list[dict[str, Any]]:
        """Send one prompt a tail: the prompt so far with the tail behind it."""
        prompt = self._prompt.call_input()
        prompts = [prompt.ids + tail for tail in tails]
        pictures = prompt.pictures(self._images)
        images = [pictures] * len(tails)
        single = len(tails) == 1
        body: dict[str, Any] = {
            "input_ids": prompts[0] if single else prompts,
            "sampling_params": options,
            **(extra or {}),
        }
        if pictures:
            body["image_data"] = images[0] if single else images
        answers = self._worker.generate(body)
        self._count(answers)
        of_cache = answers[0]["meta_info"].get("agentserve") or {}
        self._prompt.answered(of_cache.get("keeps", ()), of_cache.get("selected", ()))
        return answers

    def _count(self, answers: list[dict[str, Any]]) -> None:
        self.calls.extend(call_usage(answer["meta_info"]) for answer in answers)


def call_usage(meta: dict[str, Any]) -> CallUsage:
    """From a generation's meta info."""
    of_cache = meta.get("agentserve") or {}  # only of calls with parts of a screen
    return CallUsage(
        prompt_tokens=meta["prompt_tokens"],
        cached_tokens=meta["cached_tokens"],
        completion_tokens=meta["completion_tokens"],
        pruned_tokens=of_cache.get("pruned", 0),
        freed_tokens=of_cache.get("freed", 0),
        unchosen=of_cache.get("unchosen"),
        rebuilt=of_cache.get("rebuilt", False),
        sources=of_cache.get("sources", []),
    )


def _tail_logprobs(answer: dict[str, Any], tail: list[int]) -> list[list[Any]]:
    """The (logprob, token id, text) of the last tokens of a prompt, which must be ``tail``."""
    entries = answer["meta_info"]["input_token_logprobs"][-len(tail) :]
    if [entry[1] for entry in entries] != tail:
        raise WorkerLost(
            "the worker's log probabilities are not those of the tokens that were sent",
            hint="is it an SGLang server of the supported version?",
        )
    return entries
