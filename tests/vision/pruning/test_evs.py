from __future__ import annotations

import numpy as np

from agentserve.core.pruning import Pruning
from agentserve.vision.pruning import choose

from .pictures import picture, sketch, view


def evs(now: np.ndarray, before: np.ndarray | None, ratio: float, **more) -> list[str]:
    return sketch(choose(Pruning(method="evs", ratio=ratio), view(now, before=before, **more)))


def test_what_changed_most_stays():
    before = picture("aaaa", "aaaa")
    now = picture("aaba", "acfa")  # by 8, 16 and 40 levels
    assert evs(now, before, 0.5) == ["x.x.", ".xx."]
    assert evs(now, before, 0.75) == ["....", ".xx."]
    assert evs(now, before, 0.9) == ["....", "..x."]


def test_the_direction_of_a_change_does_not_matter():
    before = picture("cccc")
    assert evs(picture("acdc"), before, 0.5) == ["x.x."]
    assert evs(picture("acdc"), before, 0.75) == ["x..."]


def test_without_a_screen_before_all_stays():
    assert evs(picture("ab"), None, 0.9) == ["xx"]


def test_only_the_covered_are_ranked():
    covered = np.array([[1, 1, 0, 0]], bool)
    assert evs(picture("abzz"), picture("aaaa"), 0.5, covered=covered) == [".x.."]
