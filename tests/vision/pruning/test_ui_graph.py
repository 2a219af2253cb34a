from __future__ import annotations

import numpy as np
import pytest

from agentserve.core.pruning import Pruning
from agentserve.vision.pruning import choose
from agentserve.vision.pruning.ui_graph import components

from .pictures import GRID, picture, sketch, view


def ui_graph(pixels: np.ndarray, ratio: float, covered=None, **more) -> list[str]:
    return sketch(choose(Pruning(method="ui_graph", ratio=ratio, **more), view(pixels, covered)))


def test_each_area_keeps_its_share_and_what_is_alone_stays():
    # a: 5 tokens, 5 - round(2.5) = 3 stay; b: 4, 2 stay; the noise is alone
    assert ui_graph(picture("aaab", "aabb", "##b#"), 0.5) == ["x.x.", ".xx.", "xxxx"]


def test_areas_touch_by_their_edges():
    assert ui_graph(picture("ab", "ba"), 0.95) == ["xx", "xx"]
    assert ui_graph(picture("aa", "ba"), 0.95) == [".x", "x."]


def test_nearly_equal_is_equal():
    pixels = picture("aa")
    pixels[:, GRID:] += 2
    assert ui_graph(pixels, 0.95) == [".x"]
    pixels[0, GRID] += 1
    assert ui_graph(pixels, 0.95) == ["xx"]


def test_equal_ends_of_a_slow_change_are_one_area():
    pixels = picture("aaaa")
    for token in range(4):
        pixels[:, token * GRID :] += 2
    assert ui_graph(pixels, 0.75) == ["..x."]


def test_an_area_is_parted_by_what_is_not_covered():
    covered = np.array([[1, 1, 0, 1, 1]], bool)
    assert ui_graph(picture("aaaaa"), 0.95, covered) == [".x..x"]


def test_min_tokens_are_made_up_from_the_rest():
    assert ui_graph(picture("aaaa", "bbbb"), 0.95, min_tokens=1) == ["..x.", "..x."]
    stays = ui_graph(picture("aaaa", "bbbb"), 0.95, min_tokens=5)
    assert "".join(stays).count("x") == 5
    assert all(row[2] == "x" for row in stays)


@pytest.mark.parametrize("seed", range(10))
def test_components_are_those_of_a_search(seed):
    random = np.random.default_rng(seed)
    edges = [(int(a), int(b)) for a, b in random.integers(0, 30, (20, 2))]
    found = components(30, edges)
    assert sorted(node for members in found for node in members) == list(range(30))
    for members in found:
        reached, front = {members[0]}, [members[0]]
        while front:
            node = front.pop()
            near = {b for a, b in edges if a == node} | {a for a, b in edges if b == node}
            front += near - reached
            reached |= near
        assert members == sorted(reached)
