"""What of a batch is to be chosen from: rows, groups, budgets, obstacles."""

from __future__ import annotations

import numpy as np
import pytest

from agentserve.engine.pruning.targets import Extent, Target, budget, obstacle, split

from .changes import change_with, open_item

# 3 tokens of text, 6 of an item, 2 of text, 4 of an item of which the first may not stay, 5 of text
CHANGE = change_with(open_item(3, (2, 3)), open_item(11, (2, 2), [1, 2, 3]), length=20)


def target(prefix: int) -> Target:
    return Target(None, 0, start=7, extent=Extent(prefix, 20 - prefix), change=CHANGE)


@pytest.mark.parametrize("prefix", [0, 3])
def test_candidates_are_rows_of_the_batch(prefix: int):
    one = target(prefix)
    places = [3, 4, 5, 6, 7, 8, 12, 13, 14]
    assert (one.candidates + prefix).tolist() == places
    assert one.groups.tolist() == [0] * 6 + [1] * 3
    assert one.voices == 5


def test_split():
    def parts(*kept: int) -> list[list[int]]:
        return [part.tolist() for part in split(np.array(kept, np.int64), CHANGE)]

    assert parts(0, 5, 6, 8) == [[0, 5], [0, 2]]
    assert parts(*range(9)) == [list(range(6)), [0, 1, 2]]
    assert parts(8) == [[], [2]]
    assert parts(5) == [[5], []]


@pytest.mark.parametrize(
    ("prefix", "end", "expected"),
    [
        (0, 20, None),
        (3, 20, None),
        (4, 20, "is computed already"),
        (12, 20, "is computed already"),
        (0, 19, "does not end in this chunk"),
        (0, 21, "does not end in this chunk"),
    ],
)
def test_obstacles(prefix: int, end: int, expected: str | None):
    found = obstacle(CHANGE, Extent(prefix, end - prefix))
    assert found is None if expected is None else expected in found


@pytest.mark.parametrize(
    ("total", "share", "groups", "minimum", "keep", "least"),
    [
        (100, 0.5, [60, 40], 1, 50, [1, 1]),
        (100, 1 - 0.29, [100], 1, 71, [1]),  # 100 * 0.29 is 28.999…
        (101, 0.5, [101], 1, 51, [1]),
        (100, 0.0, [60, 40], 1, 2, [1, 1]),
        (100, 0.1, [60, 40], 8, 16, [8, 8]),
        (100, 0.1, [97, 3], 8, 11, [8, 3]),
        (100, 1.0, [100], 1, 100, [1]),
    ],
)
def test_budgets(total, share, groups, minimum, keep, least):
    kept, per_item = budget(total, share, groups, minimum)
    assert (kept, per_item.tolist()) == (keep, least)
