"""What stays once a prompt is answered, for scores that are given."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from agentserve.core.pruning import Eviction
from agentserve.engine.pruning.evict import by_attention, evict

GROUPS = np.repeat([0, 1, 2], [10, 6, 4])
ALL = np.arange(20)


def left(
    method: str,
    keep: float = 0.3,
    kept: np.ndarray = ALL,
    scores: list[float] | None = None,
) -> list[int] | None:
    given = None if scores is None else torch.tensor(scores, dtype=torch.float32)
    stays = evict(Eviction(method=method, keep=keep), kept, GROUPS, given)
    return None if stays is None else stays.tolist()


def test_vtw_keeps_the_ends_of_each_item():
    assert left("vtw") == [0, 9, 10, 15, 16, 19]
    assert left("vtw", keep=1.0) == [0, 9, 10, 15, 16, 19]
    assert left("vtw", kept=np.array([3, 4, 5, 12, 18, 19])) == [3, 5, 12, 18, 19]


@pytest.mark.parametrize("method", ["attention", "look_m"])
def test_the_most_attended_stay(method: str):
    scores = [0.0] * 20
    for place, score in ((2, 9.0), (3, 8.0), (4, 7.0), (5, 6.0), (11, 5.0), (17, 1.0)):
        scores[place] = score
    assert by_attention(Eviction(method=method))
    assert left(method, scores=scores) == [2, 3, 4, 5, 11, 17]
    # three go to the items' best, one is left for the best of all
    assert left(method, 0.2, scores=scores) == [2, 3, 11, 17]


@pytest.mark.parametrize("method", ["attention", "look_m"])
def test_without_attention_nothing_is_chosen(method: str):
    assert left(method) is None


def test_shares_are_of_what_there_was_before_a_pruning():
    kept = np.arange(0, 20, 2)
    scores = list(np.linspace(1, 0, 10))
    assert len(left("attention", 0.3, kept, scores)) == 6
    assert left("attention", 0.5, kept, scores) == kept.tolist()
    assert left("attention", 0.9, kept, scores) == kept.tolist()


@pytest.mark.parametrize("method", ["uniform", "random", "attention"])
@pytest.mark.parametrize(
    ("keep", "count"), [(0.0, 3), (0.1, 3), (0.3, 6), (0.29, 6), (0.99, 20), (1.0, 20)]
)
def test_counts(method: str, keep: float, count: int):
    stays = left(method, keep, scores=[0.5] * 20)
    assert len(stays) == count
    assert stays == sorted(set(stays))
    assert set(GROUPS[stays]) == {0, 1, 2}


def test_uniform_is_evenly_spaced():
    assert left("uniform", 0.25) == [2, 6, 10, 14, 18]
    assert left("uniform", 0.25, kept=np.arange(0, 20, 2)) == [2, 6, 10, 14, 18]
    assert not by_attention(Eviction(method="uniform"))


def test_random_is_neither_evenly_spaced_nor_another_one_every_time():
    assert left("random", 0.5) == left("random", 0.5)
    assert len(set(np.diff(left("random", 0.5)))) > 1
