"""Pruned prompts on workers of several kinds, crowded, and with too little room."""

from __future__ import annotations

import random
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from agentserve.core.pruning import Pruning, stage_layers

from ..checked import checked_worker
from ..eviction.sessions import slots_in_use
from ..items.asking import Worker
from .asking import DEPTH, NINE, ROUNDING, SETTINGS, Asked, Judge, asked
from .prompts import Prompt, open_prompts
from .reference import PrunedReference

pytestmark = [pytest.mark.soak, pytest.mark.timeout(3600)]

ARGUMENTS = {
    "mixed chunks": ("--enable-mixed-chunk",),
    "mixed chunks, one batch after the other": (
        "--enable-mixed-chunk",
        "--disable-overlap-schedule",
    ),
    "one batch after the other": ("--disable-overlap-schedule",),
    "mixed long chunks": ("--enable-mixed-chunk", "--chunked-prefill-size", "512"),
}


def crowd(
    worker: Worker, prompts: list[tuple[Prompt, Pruning | None]], sampling: dict, threads: int
) -> list[Asked]:
    """Each alone in its call, several calls at a time."""

    def one(pair: tuple[Prompt, Pruning | None]) -> Asked:
        prompt, pruning = pair
        response = worker.post(prompt.ids, prompt.sent(pruning), sampling_params=sampling)
        return asked(response.raise_for_status().json())

    with ThreadPoolExecutor(threads) as pool:
        return list(pool.map(one, prompts))


@pytest.mark.parametrize("arguments", ARGUMENTS.values(), ids=ARGUMENTS)
def test_answers_that_go_on_while_others_are_pruned(
    tmp_path: Path, checkpoint: Path, judge: Judge, arguments: tuple[str, ...]
):
    with checked_worker(tmp_path, checkpoint, *arguments) as worker:
        pairs = [
            (prompt, pruning)
            for prompt in open_prompts(worker, 12, first=200)
            for pruning in (*SETTINGS.values(), None)
        ]
        random.Random(1).shuffle(pairs)
        answers = crowd(worker, pairs, NINE, threads=6)
        for (prompt, pruning), answer in zip(pairs, answers, strict=True):
            judge.check(prompt, pruning, answer)
        assert slots_in_use(worker.client) > 0  # its own checks have not ended it


def test_a_pruned_request_that_is_put_back(
    tmp_path: Path, checkpoint: Path, pruned_reference: PrunedReference, record_property
):
    """Its prompt is computed again with all tokens in sight, and so is the rest of the answer."""
    pruning = SETTINGS["fastv"]
    put_back = 0
    with checked_worker(tmp_path, checkpoint, SGLANG_TEST_RETRACT="1") as worker:
        for seed in range(300, 308, 2):
            worker.flush()
            pair = open_prompts(worker, 2, first=seed)
            answers = crowd(worker, [(p, pruning) for p in pair], {"max_new_tokens": 12}, threads=2)
            held = 0
            for prompt, one in zip(pair, answers, strict=True):
                retracted = one.meta["num_retractions"] > 0
                put_back += retracted
                check_switched(pruned_reference, prompt, pruning, one, retracted)
                held += len(prompt.layout.ids) - one.outcome["pruned"] + len(one.answer.ids) - 1
            assert slots_in_use(worker.client) == held - common(*pair)
    record_property("put back", put_back)
    assert put_back > 1


def check_switched(
    reference: PrunedReference, prompt: Prompt, pruning: Pruning, one: Asked, retracted: bool
) -> None:
    output = one.answer.ids
    pruned = reference.answer(prompt, pruning, stage_layers(pruning, DEPTH), output)
    whole = reference.answer(prompt, None, [], output)

    def agree(logprobs) -> list[bool]:
        return [
            max(abs(value - float(logprobs[i, token])) for value, token in top) < ROUNDING
            for i, top in enumerate(one.answer.top)
        ]

    with_pruning, without = agree(pruned.logprobs), agree(whole.logprobs)
    if not retracted:
        assert all(with_pruning)
        assert prompt.kept(one.outcome) == pruned.kept
        return
    assert one.outcome["unchosen"] == "its cache was taken away while it was answered"
    assert one.outcome["pruned"] == 0
    assert [len(kept) for kept in prompt.kept(one.outcome)] == [len(span) for span in prompt.open]
    switch = with_pruning.index(False)
    assert all(without[switch:])
    assert with_pruning[0] or switch == 0


def common(one: Prompt, other: Prompt) -> int:
    """Tokens of text with which both begin."""
    pairs = zip(one.layout.ids, other.layout.ids, strict=False)
    return next(i for i, (a, b) in enumerate(pairs) if a != b)
