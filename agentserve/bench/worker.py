"""The worker that a benchmark measures: one request at a time, streamed, so that the time to the
first token is known."""

from __future__ import annotations

import json
import random
import time
from bisect import bisect_left
from dataclasses import dataclass
from typing import Any

import httpx

from agentserve.core.errors import WorkerLost, WorkerRefused
from agentserve.core.families import Family, family_of
from agentserve.core.workers import WorkerReport
from agentserve.lang.tokenizer import SessionTokenizer

TIMEOUT_S = 600.0


@dataclass(frozen=True)
class Measured:
    """One answer."""

    ids: list[int]
    prompt_tokens: int
    cached_tokens: int
    ttft_ms: float
    freed: int
    """KV slots that the eviction after the answer freed."""
    encoded: int | None
    """Pictures that the vision encoder saw for it; None when the worker does not tell."""


class BenchWorker:
    """A client of one worker with the plugin."""

    def __init__(self, url: str) -> None:
        """Raises WorkerLost when nothing answers, WorkerRefused when it is no such worker."""
        self.url = url.rstrip("/")
        self._http = httpx.Client(base_url=self.url, timeout=TIMEOUT_S, trust_env=False)
        self.report = WorkerReport.model_validate_json(self._get("/agentserve"))
        self.tokenizer = SessionTokenizer(self._get("/agentserve/tokenizer"))
        self.family: Family = family_of(self.report.architecture)

    def close(self) -> None:
        self._http.close()

    def flush(self) -> None:
        """Empty the prefix cache, so that each policy begins cold."""
        self._answer(self._http.post("/flush_cache"))

    def generate(self, ids: list[int], images: list[str], new_tokens: int) -> Measured:
        """Greedy; an answer ends at ``new_tokens`` or before a special token."""
        body: dict[str, Any] = {
            "input_ids": ids,
            "stream": True,
            "sampling_params": {
                # the last token's KV is never computed: one more, and all that counts is cached
                "max_new_tokens": new_tokens + 1,
                "temperature": 0,
                "stop_token_ids": sorted(self.tokenizer.special_ids),
            },
        }
        if images:
            body["image_data"] = images
        first, last = 0.0, None
        begun = time.perf_counter()
        with self._http.stream("POST", "/generate", json=body) as response:
            if not response.is_success:
                response.read()
                self._answer(response)
            for line in response.iter_lines():
                if line.startswith("data: {"):
                    first = first or time.perf_counter() - begun
                    last = json.loads(line.removeprefix("data: "))
        if last is None or "meta_info" not in last:
            raise WorkerLost(f"the worker at {self.url} broke off: {last}")
        meta = last["meta_info"]
        of_cache = meta.get("agentserve") or {}
        sources = of_cache.get("sources")
        kept = [token for token in last["output_ids"] if token not in self.tokenizer.special_ids]
        return Measured(
            ids=kept[:new_tokens],
            prompt_tokens=meta["prompt_tokens"],
            cached_tokens=meta["cached_tokens"],
            ttft_ms=first * 1000,
            freed=of_cache.get("freed", 0),
            encoded=None if sources is None else sources.count("encoder"),
        )

    def text_of(self, tokens: int, seed: str) -> str:
        """A text of about so many tokens, and another one for another seed."""
        words = random.Random(seed).choices(_WORDS, k=tokens)

        def length(count: int) -> int:
            return len(self.tokenizer.encode(" ".join(words[:count])))

        return " ".join(words[: bisect_left(range(tokens), tokens, key=length)])

    def _get(self, path: str) -> str:
        try:
            return self._answer(self._http.get(path)).text
        except httpx.TransportError as error:
            raise WorkerLost(f"no answer from the worker at {self.url}: {error}") from error

    def _answer(self, response: httpx.Response) -> httpx.Response:
        if not response.is_success:
            raise WorkerRefused(
                f"the worker answered {response.status_code} to {response.request.url.path}: "
                f"{response.text[:500]}",
                hint="it must be started by agentserve worker",
            )
        return response


_WORDS = (
    "the", "page", "shows", "a", "button", "and", "one", "text", "field", "open", "to", "click",
    "select", "first", "item", "of", "list", "then", "enter", "name", "in", "it", "go", "next",
)  # fmt: skip
