"""Seeds are used once, tasks get their shares, and plans that cannot work are refused at once."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path

import pytest

from agentserve.core.errors import InvalidRequest
from agentserve.nano.collect.plan import MODES, Plan, check_plan, deal_tasks, seed_range
from agentserve.nano.collect.style import style_sheet


def test_no_two_collections_share_seeds() -> None:
    ranges = sorted(seed_range(seed, mode) for seed in range(5) for mode in MODES)
    assert ranges[0][0] == 10_000  # what is smaller is for evaluation
    assert all(a[1] <= b[0] for a, b in zip(ranges, ranges[1:], strict=False))


def test_tiles_are_shared_out() -> None:
    dealt = deal_tasks(("a", "b", "c", "c"), 12, 0.33, random.Random(0))
    assert Counter(dealt) == {"words": 4, "a": 2, "b": 2, "c": 4}
    assert deal_tasks((), 3, 0, random.Random(0)) == ["words"] * 3


def test_more_tasks_than_tiles_take_turns() -> None:
    tasks = tuple("abcdefgh")
    seen = {task for seed in range(20) for task in deal_tasks(tasks, 4, 0, random.Random(seed))}
    assert seen == set(tasks)


def plan(**fields: object) -> Plan:
    return Plan(**{"out": Path("x"), "screens": 1, "tasks": ("click-test",), **fields})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"tasks": ("click-tset",)}, "no MiniWoB"),
        ({"tasks": ("no-oracle-has-it",), "mode": "solo"}, "no oracle"),
        ({"tasks": (), "mode": "solo"}, "no task"),
        ({"seed": -1}, "negative"),
    ],
)
def test_impossible_plans_are_refused(fields: dict[str, object], words: str) -> None:
    with pytest.raises(InvalidRequest, match=words):
        check_plan(plan(**fields))


def test_a_near_name_is_suggested() -> None:
    with pytest.raises(InvalidRequest) as caught:
        check_plan(plan(tasks=("click-tset",)))
    assert "click-test" in caught.value.hint
    check_plan(plan())


def test_style_sheets_follow_their_seed() -> None:
    families = ("DejaVu Serif", "monospace")
    sheets = [style_sheet(random.Random(seed), families) for seed in (1, 1, 2)]
    assert sheets[0] == sheets[1] != sheets[2]
