from __future__ import annotations

import numpy as np

from agentserve.core.pruning import Pruning
from agentserve.vision.pruning import choose

from .pictures import picture, sketch, view


def test_the_same_picture_gives_the_same_set_for_ever():
    """Sessions that were stored long ago have been thinned by these lots."""
    stays = choose(Pruning(method="random", ratio=0.5), view(picture("abcd", "efgh")))
    assert sketch(stays) == ["x...", "xxx."]


def test_more_tokens_are_a_superset_of_fewer():
    pixels = picture("abcdefgh", "########")
    sets = [
        choose(Pruning(method="random", ratio=ratio), view(pixels)) for ratio in (0.8, 0.5, 0.1)
    ]
    for fewer, more in zip(sets, sets[1:], strict=False):
        assert not (fewer & ~more).any()


def test_a_tokens_lot_is_the_same_whatever_else_is_covered():
    pixels = picture("abcd", "efgh")
    covered = np.array([[1, 0, 0, 1], [1, 1, 1, 0]], bool)
    stays = choose(Pruning(method="random", ratio=0.2), view(pixels, covered))
    assert sketch(stays) == ["x...", "xxx."]


def test_no_place_is_preferred():
    count = np.zeros((4, 4))
    for seed in range(400):
        pixels = picture("####", "####", "####", "####", seed=seed)
        count += choose(Pruning(method="random", ratio=0.5), view(pixels))
    assert count.sum() == 8 * 400
    assert np.abs(count - 200).max() < 50  # five standard deviations
