"""Asking a worker for pruned answers, and comparing them with the reference."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

from agentserve.core.pruning import Pruning, stage_layers
from agentserve.engine.eviction.outcome import KEY

from ..checked import checked_worker
from ..items.asking import Answer, Worker, answer_of
from .prompts import Prompt
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
BLOCKER = "press the red button " * 100
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
        """The same of decode batches, but of the last, which is told of when all is over."""
        found: list[dict[str, int]] = []
        start = self.path.stat().st_size
        yield found
        found += [step for step in self._counts(start, "Decode batch") if step["token"]]

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
    folder: Path, checkpoint: Path, *arguments: str, **options: Any
) -> Iterator[Logged]:
    """As checked_worker, with chunks that hold several prompts, and a line for every step."""
    wide = ("--chunked-prefill-size", "4096", "--decode-log-interval", "1")
    with checked_worker(folder, checkpoint, *wide, *arguments, **options) as worker:
        (path,) = folder.glob("worker-*.log")
        yield Logged(worker, path)


def ask_behind(
    worker: Worker, first: tuple[Prompt, Pruning | None], second: Prompt, new_tokens: int
) -> tuple[dict[str, Any], dict[str, Any]]:
    """What the answers tell of a request of so many new tokens and of one that comes a moment later
    and wants few: the first one's, and the second one's."""
    worker.flush()
    bodies = [
        worker.body(prompt.ids, prompt.sent(pruning), sampling_params={"max_new_tokens": count})
        for (prompt, pruning), count in ((first, new_tokens), ((second, None), 4))
    ]
    with ThreadPoolExecutor() as pool:
        running = pool.submit(worker.client.post, "/generate", json=bodies[0])
        time.sleep(0.3)
        later = worker.client.post("/generate", json=bodies[1]).raise_for_status().json()
        earlier = running.result().raise_for_status().json()
    metas = earlier["meta_info"], later["meta_info"]
    assert [meta["num_retractions"] for meta in metas] == [0, 0]
    return metas


def ask_together(
    worker: Worker, prompts: Sequence[tuple[Prompt, Pruning | None]], **fields: Any
) -> list[Asked]:
    """Several prompts in one call. While a longer one before them is computed they come together,
    and are computed in one batch."""
    worker.flush()
    response: httpx.Response = worker.post(
        [worker.ids(BLOCKER), *(prompt.ids for prompt, _ in prompts)],
        [[], *(prompt.sent(pruning) for prompt, pruning in prompts)],
        sampling_params=NINE,
        **fields,
    )
    assert response.status_code == 200, response.text
    return [asked(body) for body in response.json()[1:]]
