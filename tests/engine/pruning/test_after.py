"""What stays once a prompt is answered, alone and behind a pruning; sessions go on from it."""

from __future__ import annotations

import math

import numpy as np
import pytest

from agentserve.core.pruning import Eviction, Pruning, stage_layers
from agentserve.engine.eviction.outcome import KEY

from ..eviction.sessions import slots_in_use
from ..items.asking import Worker, answer_of
from .asking import DEPTH, ROUNDING, Asked, ask
from .prompts import Prompt, laid_out, open_prompts
from .reference import Expected, PrunedReference, merge

pytestmark = pytest.mark.timeout(900)

FAR = 0.01
"""KV that is merged, or of other tokens; most are ten times as far."""
FASTV = Pruning(method="fastv", ratio=0.4)
NEXT = "<|im_end|>\n<|im_start|>user\nand now press close<|im_end|>\n<|im_start|>assistant\n"
EVICTIONS = {
    "vtw": Eviction(method="vtw"),
    "attention": Eviction(method="attention", keep=0.4),
    "attention-1-row": Eviction(method="attention", keep=0.4, rows=1),
    "look_m": Eviction(method="look_m", keep=0.3),
    "uniform": Eviction(method="uniform", keep=0.4),
    "random": Eviction(method="random", keep=0.4),
}


def kept_by(eviction: Eviction, prompt: Prompt, expected: Expected) -> np.ndarray | None:
    """The tokens to choose from that stay, counted among them; None: any of the right number."""
    items = np.repeat(np.arange(len(prompt.open)), [len(span) for span in prompt.open])
    left, own = expected.left, items[expected.left]
    if eviction.method == "vtw":
        ends = [tokens[[0, -1]] for item in np.unique(own) for tokens in [left[own == item]]]
        return np.unique(np.concatenate(ends))
    if eviction.method not in ("attention", "look_m"):
        return None
    budget = len(items) - math.floor(len(items) * (1 - eviction.keep) + 1e-9)
    order = np.argsort(-expected.scores.numpy(), kind="stable")
    chosen = [next(i for i in order if own[i] == item) for item in np.unique(own)]
    chosen += [i for i in order if i not in chosen][: max(0, budget - len(chosen))]
    return left[np.sort(chosen)]


def chosen_of(prompt: Prompt, one: Asked) -> np.ndarray:
    """The tokens to choose from that the worker says are left, counted among them."""
    starts = np.cumsum([0, *(len(span) for span in prompt.open)])
    own = zip(prompt.kept(one.outcome), starts[:-1], strict=True)
    return np.concatenate([np.asarray(kept, int) + start for kept, start in own])


def reference_of(
    reference: PrunedReference, prompt: Prompt, pruning: Pruning | None, rows: int, one: Asked
) -> Expected:
    stages = [] if pruning is None else stage_layers(pruning, DEPTH)
    return reference.answer(prompt, pruning, stages, one.answer.ids, rows)


@pytest.mark.parametrize("pruning", [None, FASTV], ids=["alone", "behind fastv"])
@pytest.mark.parametrize("name", EVICTIONS)
@pytest.mark.parametrize(
    "count", [3, pytest.param(50, marks=[pytest.mark.soak, pytest.mark.timeout(3600)])]
)
def test_what_stays_is_what_it_was(
    worker: Worker,
    pruned_reference: PrunedReference,
    name: str,
    pruning: Pruning | None,
    count: int,
):
    eviction = EVICTIONS[name]
    for prompt in open_prompts(worker, count, first=500):
        one = ask(worker, prompt, pruning, eviction=eviction)
        expected = reference_of(pruned_reference, prompt, pruning, eviction.rows, one)
        assert one.answer.error(expected.logprobs) < ROUNDING
        kept = chosen_of(prompt, one)
        right = kept_by(eviction, prompt, expected)
        if right is None:
            check_number(eviction, prompt, expected, kept)
        else:
            assert kept.tolist() == right.tolist()
        check_counts(worker, prompt, one, expected, kept)
        check_continued(worker, pruned_reference, prompt, one, expected, kept, eviction)


def check_number(eviction: Eviction, prompt: Prompt, expected: Expected, kept: np.ndarray) -> None:
    total = sum(map(len, prompt.open))
    budget = total - math.floor(total * (1 - eviction.keep) + 1e-9)
    assert len(kept) == min(budget, len(expected.left))
    assert np.isin(kept, expected.left).all()
    if eviction.method == "uniform":
        gaps = np.diff(np.searchsorted(expected.left, kept))
        assert gaps.max(initial=0) - gaps.min(initial=gaps.max(initial=0)) <= 2


def check_counts(
    worker: Worker, prompt: Prompt, one: Asked, expected: Expected, kept: np.ndarray
) -> None:
    total = sum(map(len, prompt.open))
    assert one.outcome["unchosen"] is None
    assert one.outcome["pruned"] == total - len(expected.left)
    assert one.outcome["freed"] == len(expected.left) - len(kept)
    left = len(prompt.layout.ids) - total + len(kept)
    assert slots_in_use(worker.client) == left + len(one.answer.ids) - 1


def check_continued(
    worker: Worker,
    reference: PrunedReference,
    prompt: Prompt,
    one: Asked,
    expected: Expected,
    kept: np.ndarray,
    eviction: Eviction,
) -> None:
    """The next prompt finds all that is left, as it was, or merged."""
    answer, text = one.answer.ids, worker.ids(NEXT)
    following = laid_out(worker, [*prompt.ids, *answer, *text], prompt.left(one.outcome))
    answered = worker.post(following.ids, following.sent()).raise_for_status().json()
    later = answer_of(answered)
    candidates = np.concatenate(prompt.open)
    rows = np.setdiff1d(np.arange(len(prompt.layout.ids)), np.delete(candidates, kept))
    assert later.cached == len(rows) + len(answer) - 1
    assert not answered["meta_info"][KEY]["rebuilt"]
    first = prompt.layout.next_position + len(answer) - 1

    def error(rows: np.ndarray) -> float:
        new = [answer[-1], *text]
        return later.error(reference.go_on(expected, rows, new, first, later.ids))

    leaving = candidates[np.setdiff1d(expected.left, kept)]
    if len(leaving) > 3:
        assert error(expected.rows) > FAR  # as if nothing had left
    if eviction.method == "look_m" and len(leaving):
        assert error(rows) > FAR
        merge(expected, leaving, candidates[kept])
    assert error(rows) < ROUNDING


def test_everything_may_stay(worker: Worker):
    (prompt,) = open_prompts(worker, 1)
    one = ask(worker, prompt, eviction=Eviction(method="attention", keep=1.0))
    assert one.outcome["freed"] == 0
    assert [len(kept) for kept in prompt.kept(one.outcome)] == [len(span) for span in prompt.open]


def test_an_item_keeps_a_token_however_little_is_kept(worker: Worker):
    prompts = [prompt for prompt in open_prompts(worker, 6) if len(prompt.open) > 1]
    for method in ("attention", "look_m", "uniform", "random"):
        one = ask(worker, prompts[0], eviction=Eviction(method=method, keep=0.0))
        assert [len(kept) for kept in prompts[0].kept(one.outcome)] == [1] * len(prompts[0].open)


def test_the_same_random_ones_every_time(worker: Worker):
    (prompt,) = open_prompts(worker, 1)
    outcomes = [ask(worker, prompt, eviction=EVICTIONS["random"]).outcome for _ in range(2)]
    assert outcomes[0]["keeps"] == outcomes[1]["keeps"]
