"""The worker that a benchmark measures: one request at a time, streamed, so that the time to the
first token is known."""

from __future__ import annotations

import json
import random
import time
from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import httpx

from agentserve.core.config import KEEP_CONNECTION_S
from agentserve.core.errors import WorkerLost, WorkerRefused
from agentserve.core.families import Family, family_of
from agentserve.core.workers import WorkerReport
from agentserve.lang.tokenizer import SessionTokenizer

TIMEOUT_S = 600.0
FLUSH_TIMEOUT_S = 30.0


@dataclass(frozen=True)
class Scheduling:
    """How a worker computes long prompts."""

    chunk: int
    """Most tokens of prompts in a batch; 0 or less: no limit."""
    mixed: bool
    """Whether such a batch has the next tokens of running streams as well."""


class BenchWorker:
    """A client of one worker with the plugin."""

    def __init__(self, url: str, *, logprobs: bool = False) -> None:
        """``logprobs``: answers tell those of their tokens. Raises WorkerLost when nothing
        answers, WorkerRefused when it is no such worker."""
        self.url = url.rstrip("/")
        self._always = {"stream": True} | ({"return_logprob": True} if logprobs else {})
        self._http = httpx.Client(
            base_url=self.url,
            timeout=TIMEOUT_S,
            trust_env=False,
            limits=httpx.Limits(keepalive_expiry=KEEP_CONNECTION_S),
        )
        self.report = WorkerReport.model_validate_json(self._get("/agentserve"))
        self.tokenizer = SessionTokenizer(self._get("/agentserve/tokenizer"))
        self.family: Family = family_of(self.report.architecture)

    @property
    def model(self) -> str:
        """The model's name, without the folder that it lies in."""
        return self.report.served_model_name.rpartition("/")[2]

    def close(self) -> None:
        self._http.close()

    def flush(self) -> None:
        """Empty the prefix cache, so that what comes begins cold."""
        # right behind an answer its request may still count as running
        self._answer(self._http.post("/flush_cache", params={"timeout": FLUSH_TIMEOUT_S}))

    def generate(self, body: dict[str, Any]) -> tuple[dict[str, Any], float]:
        """``POST /generate`` with one prompt: the answer, and the ms to its first token.

        Raises WorkerLost when the worker breaks off, WorkerRefused when it says no.
        """
        begun = time.perf_counter()
        first, last = 0.0, None
        for at, event in self.stream(body):
            first, last = first or at, event
        if last is None or "meta_info" not in last:
            raise WorkerLost(f"the worker at {self.url} broke off: {last}")
        return last, (first - begun) * 1000

    def stream(self, body: dict[str, Any]) -> Iterator[tuple[float, dict[str, Any]]]:
        """The same as it comes: when (``time.perf_counter``) and what. Whoever stops to iterate
        and closes it aborts the request."""
        with self._http.stream("POST", "/generate", json=body | self._always) as response:
            if not response.is_success:
                response.read()
                self._answer(response)
            for line in response.iter_lines():
                if line.startswith("data: {"):
                    yield time.perf_counter(), json.loads(line.removeprefix("data: "))

    def scheduling(self) -> Scheduling:
        info = json.loads(self._get("/server_info"))
        return Scheduling(info["chunked_prefill_size"], info["enable_mixed_chunk"])

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
