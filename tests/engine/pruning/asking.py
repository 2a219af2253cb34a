"""Asking a worker for pruned answers, and comparing them with the reference."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

from agentserve.core.pruning import Pruning, stage_layers
from agentserve.engine.eviction.outcome import KEY

from ..checked import checked_worker
from ..items.asking import Answer, Worker, answer_of
from .prompts import Prompt, random_prompt
from .reference import Expected, PrunedReference

DEPTH = 6
"""Layers of the random model."""
ROUNDING = 2e-3
"""Two fp32 computations of a log probability."""
SETTINGS: dict[str, Pruning] = {
    "fastv": Pruning(method="fastv", ratio=0.5),
    "fastv-8-rows": Pruning(method="fastv", ratio=0.75, rows=8, layers=[0.5]),
    "pyramid_drop": Pruning(method="pyramid_drop", ratio=0.8),
    "btp": Pruning(method="btp", ratio=0.8),
    "sparsevlm": Pruning(method="sparsevlm", ratio=0.7),
    "sparsevlm-adaptive": Pruning(method="sparsevlm", ratio=0.7, adaptive=True),
    "sparsevlm-recycle": Pruning(method="sparsevlm", ratio=0.7, recycle=True, layers=[0.4]),
}
NINE = {"max_new_tokens": 9}
"""The first token, and eight more."""


@dataclass(frozen=True)
class Asked:
    """An answer of nine tokens."""

    answer: Answer
    outcome: dict[str, Any]
    meta: dict[str, Any]


def asked(body: dict[str, Any]) -> Asked:
    return Asked(answer_of(body), body["meta_info"][KEY], body["meta_info"])


def ask(worker: Worker, prompt: Prompt, pruning: Pruning | None = None, **sent: Any) -> Asked:
    """From an empty cache, alone."""
    worker.flush()
    response = worker.post(prompt.ids, prompt.sent(pruning, **sent), sampling_params=NINE)
    assert response.status_code == 200, response.text
    return asked(response.json())


def open_prompts(worker: Worker, count: int, first: int = 0) -> list[Prompt]:
    """The first so many random prompts with something to choose from."""
    found: list[Prompt] = []
    seed = first
    while len(found) < count:
        prompt = random_prompt(worker, seed)
        seed += 1
        if prompt.open:
            found.append(prompt)
    return found


@dataclass
class Judge:
    """Compares with the reference; a question that was asked before is not computed again."""

    reference: PrunedReference
    _known: dict[tuple, Expected] = field(default_factory=dict)

    def expected(self, prompt: Prompt, pruning: Pruning | None, output: Sequence[int]) -> Expected:
        key = (str(prompt.ids), str(prompt.pictures), str(pruning), *output)
        if key not in self._known:
            stages = [] if pruning is None else stage_layers(pruning, DEPTH)
            self._known[key] = self.reference.answer(prompt, pruning, stages, list(output))
        return self._known[key]

    def check(self, prompt: Prompt, pruning: Pruning | None, one: Asked) -> None:
        expected = self.expected(prompt, pruning, one.answer.ids)
        if pruning is not None:
            assert one.outcome["unchosen"] is None
            assert prompt.kept(one.outcome) == expected.kept
            gone = sum(map(len, prompt.open)) - sum(map(len, expected.kept))
            assert one.outcome["pruned"] == gone
        assert one.answer.error(expected.logprobs) < ROUNDING
        for top, logprobs in zip(one.answer.top, expected.logprobs, strict=True):
            best = logprobs.topk(4).values.tolist()
            assert max(abs(top[i][0] - best[i]) for i in range(4)) < ROUNDING


@dataclass(frozen=True)
class Logged:
    """A worker with its log, which tells what ran together."""

    worker: Worker
    path: Path

    @contextmanager
    def batches(self) -> Iterator[list[dict[str, int]]]:
        """What the log says of prefill batches in the block, once it is left: its counts."""
        found: list[dict[str, int]] = []
        start = self.path.stat().st_size
        yield found
        found += self._counts(start, "Prefill batch")

    @contextmanager
    def steps(self) -> Iterator[list[dict[str, int]]]:
        """The same of decode batches."""
        found: list[dict[str, int]] = []
        start = self.path.stat().st_size
        yield found
        found += self._counts(start, "Decode batch")

    def _counts(self, start: int, kind: str) -> list[dict[str, int]]:
        self.worker.client.get("/v1/loads")
        with self.path.open() as log:
            log.seek(start)
            lines = [line for line in log if kind in line]
        return [
            {name: int(value) for name, value in re.findall(r"#([a-z-]+): (\d+)", line)}
            for line in lines
        ]


@contextmanager
def logged_worker(
    folder: Path, checkpoint: Path, *arguments: str, **environment: str
) -> Iterator[Logged]:
    """As checked_worker, with chunks that hold several prompts, and a line for every step."""
    wide = ("--chunked-prefill-size", "4096", "--decode-log-interval", "1")
    with checked_worker(folder, checkpoint, *wide, *arguments, **environment) as worker:
        (path,) = folder.glob("worker-*.log")
        yield Logged(worker, path)


def ask_together(
    worker: Worker, prompts: Sequence[tuple[Prompt, Pruning | None]], **fields: Any
) -> list[Asked]:
    """Several prompts in one call. While a longer one before them is computed they come together,
    and are computed in one batch."""
    worker.flush()
    blocker = worker.ids("press the red button ") * 100
    response: httpx.Response = worker.post(
        [blocker, *(prompt.ids for prompt, _ in prompts)],
        [[], *(prompt.sent(pruning) for prompt, pruning in prompts)],
        sampling_params=NINE,
        **fields,
    )
    assert response.status_code == 200, response.text
    return [asked(body) for body in response.json()[1:]]
