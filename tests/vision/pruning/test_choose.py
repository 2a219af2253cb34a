"""What holds for every method, and how many tokens stay."""

from __future__ import annotations

import numpy as np
import pytest

from agentserve.core.pruning import METHODS, Pruning, kept_count
from agentserve.vision.pruning import choose, works_on_pixels
from agentserve.vision.pruning.counts import evenly

from .pictures import picture, view

ALL = [name for name, method in METHODS.items() if method.where == "pixels"]
EXACT = ["uniform", "random", "evs"]


def random_view(seed: int):
    """A picture of flat areas and noise, some of it covered."""
    random = np.random.default_rng(seed)
    shape = tuple(random.integers(1, 9, 2))
    covered = random.random(shape) < random.choice([0.3, 0.8, 1.0])
    covered.flat[random.integers(covered.size)] = True
    screens = [
        picture(*("".join(random.choice(list("aab#"), shape[1])) for _ in range(shape[0])), seed=n)
        for n in range(2)
    ]
    return view(screens[0], covered, before=screens[1])


@pytest.mark.parametrize("method", ALL)
@pytest.mark.parametrize("seed", range(20))
def test_some_of_the_covered_stay_and_always_the_same(method, seed):
    given = random_view(seed)
    pruning = Pruning(method=method, ratio=[0.3, 0.5, 0.95][seed % 3], min_tokens=1 + seed % 4)
    stays = choose(pruning, given)
    assert stays.dtype == bool and stays.shape == given.covered.shape
    assert not (stays & ~given.covered).any()
    assert stays.sum() >= min(pruning.min_tokens, given.tokens)
    if method in EXACT:
        assert stays.sum() == kept_count(pruning, given.tokens)
    if method == "flat":
        assert stays.sum() >= kept_count(pruning, given.tokens)
    assert np.array_equal(choose(pruning, random_view(seed)), stays)


@pytest.mark.parametrize("method", ALL)
@pytest.mark.parametrize("seed", range(3))
def test_ratio_0_leaves_all(method, seed):
    given = random_view(seed)
    assert np.array_equal(choose(Pruning(method=method, ratio=0), given), given.covered)


@pytest.mark.parametrize("method", ALL)
def test_what_is_not_covered_has_no_say(method):
    given = random_view(4)
    other = given.pixels.copy()
    hidden = ~given.covered.repeat(4, 0).repeat(4, 1)
    other[hidden] ^= 255
    changed = view(other, given.covered, before=given.before)
    pruning = Pruning(method=method)
    same = np.array_equal(choose(pruning, changed), choose(pruning, given))
    assert same == (method != "random")  # the lots are the whole picture's


def test_only_methods_on_pixels_are_known():
    for name, method in METHODS.items():
        assert works_on_pixels(Pruning(method=name)) == (method.where == "pixels")
    with pytest.raises(KeyError):
        choose(Pruning(method="tome"), random_view(0))


@pytest.mark.parametrize(
    ("tokens", "ratio", "least", "kept"),
    [
        (16, 0.5, 1, 8),
        (15, 0.5, 1, 8),
        (100, 0.29, 1, 71),
        (10, 0.95, 1, 1),
        (1, 0.95, 1, 1),
        (10, 0.95, 4, 4),
        (3, 0.95, 4, 3),
        (16, 0, 1, 16),
    ],
)
def test_kept_count(tokens, ratio, least, kept):
    assert kept_count(Pruning(method="uniform", ratio=ratio, min_tokens=least), tokens) == kept


def test_evenly():
    assert evenly(8, 3).tolist() == [1, 4, 6]
    assert evenly(8, 4).tolist() == [1, 3, 5, 7]
    assert evenly(5, 1).tolist() == [2]
    for count in range(1, 20):
        for keep in range(1, count + 1):
            chosen = evenly(count, keep)
            assert len(set(chosen.tolist())) == keep and 0 <= chosen[0] and chosen[-1] < count
            assert np.ptp(np.diff(chosen)) <= 1 if keep > 2 else True
        assert evenly(count, count).tolist() == list(range(count))
