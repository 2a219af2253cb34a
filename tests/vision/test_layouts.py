from __future__ import annotations

import numpy as np
import pytest

from agentserve.vision.layouts import CANDIDATES, WINDOW, LayoutLearner, Surface


def look(name: object) -> str:
    return f"{hash(name) & (1 << 60) - 1:064x}"


def screen(*names: object) -> list[str]:
    return [look((cell, name)) for cell, name in enumerate(names)]


def learned(learner: LayoutLearner, sessions: range, *names: object, turns: int = 2):
    """Every session shows the same screen; a name of None is new in each turn."""
    for number in sessions:
        shown = [
            screen(*[(number, turn) if name is None else name for name in names])
            for turn in range(turns)
        ]
        learner = learner.observe(f"s{number}", shown)
    return learner


def static(learner: LayoutLearner) -> list[int]:
    return [one.cell for one in learner.layout.cells]


def test_a_cell_is_static_after_two_turns_of_two_sessions():
    learner = learned(LayoutLearner(), range(1), "bar", None)
    assert (learner.layout.version, static(learner)) == (0, [])
    assert static(learned(learner, range(1, 2), "bar", None, turns=1)) == []
    learner = learned(learner, range(1, 2), "bar", None)
    assert (learner.layout.version, static(learner)) == (1, [0])
    assert learner.layout.cells[0].identity == screen("bar")[0]


def test_turns_may_come_one_by_one():
    one_by_one = LayoutLearner()
    for session in ("a", "b", "a", "b"):
        one_by_one = one_by_one.observe(session, [screen("bar", session)])
    assert static(one_by_one) == [0]


def test_a_layout_stays_while_the_same_cells_are_static():
    first = learned(LayoutLearner(), range(2), "bar", None)
    later = learned(first, range(2, 9), "bar", None, turns=5)
    assert later.layout == first.layout


def test_new_cells_join_at_the_end_most_stable_first():
    learner = learned(LayoutLearner(), range(2), None, None, None, "bar")
    learner = learned(learner, range(2, 4), "late", None, None, "bar")
    learner = learned(learner, range(4, 5), "late", "later", "latest", "bar")
    learner = learned(learner, range(5, 6), "late", "later", None, "bar")
    assert static(learner) == [3, 0]
    learner = learned(learner, range(6, 7), "late", "later", "latest", "bar")
    assert static(learner) == [3, 0]
    learner = learned(learner, range(7, 8), "late", "later", "latest", "bar")
    assert static(learner) == [3, 0, 1]
    assert learner.layout.version == 3


def test_the_order_of_one_version_is_by_sessions_then_turns():
    learner = learned(LayoutLearner(), range(1), "a", None, "c", turns=2)
    shown = [screen("a", "b", "c"), screen("a", "b", "c"), screen("other", "b", "c")]
    learner = learner.observe("s0", [screen("x", "b", "c"), screen("y", "b", "c")])
    assert static(learner.observe("s1", shown)) == [2, 1, 0]


def test_what_most_sessions_no_longer_show_leaves():
    learner = learned(LayoutLearner(), range(2), "bar", "menu")
    assert static(learner) == [0, 1]
    learner = learned(learner, range(2, 4), "bar", None)
    assert static(learner) == [0, 1]  # in half of them still
    learner = learned(learner, range(4, 5), "bar", None)
    assert (static(learner), learner.layout.version) == ([0], 2)


def test_a_cell_may_have_two_looks():
    learner = LayoutLearner()
    for session in ("s0", "s1"):
        learner = learner.observe(session, [screen("off")] * 2 + [screen("on")] * 3)
    assert [one.identity for one in learner.layout.cells] == [*screen("on"), *screen("off")]


@pytest.mark.parametrize("seed", range(3))
def test_memory_is_bounded_and_static_cells_survive_noise(seed):
    random = np.random.default_rng(seed)
    learner = LayoutLearner()
    for session in range(3 * WINDOW):
        turns = [
            screen("bar", int(random.integers(1 << 60)), int(random.integers(3)))
            for _ in range(int(random.integers(2, 20)))
        ]
        learner = learner.observe(f"s{session}", turns)
        assert all(len(looks) <= CANDIDATES for looks in learner.looks)
        assert len(learner.sessions) <= WINDOW
        assert all(set(x.turns) <= set(learner.sessions) for looks in learner.looks for x in looks)
    assert static(learner)[0] == 0
    assert 1 not in static(learner)


def test_it_survives_json():
    learner = learned(LayoutLearner(), range(3), "bar", None)
    assert LayoutLearner.model_validate_json(learner.model_dump_json()) == learner


def test_screens_of_another_size_are_refused():
    learner = learned(LayoutLearner(), range(1), "a", "b")
    with pytest.raises(ValueError, match="different numbers of cells"):
        learner.observe("s1", [screen("a")])


def test_a_surface_is_all_that_sessions_must_share():
    fields = {
        "tenant": "salt", "model": "nano", "program": "0" * 64, "origin": "http://127.0.0.1",
        "viewport": {"width": 160, "height": 210}, "scale": 1.4, "cell": 112,
    }  # fmt: skip
    keys = {Surface.model_validate(fields).key}
    assert {Surface.model_validate(fields).key} == keys
    other = {
        "tenant": "other", "model": "m", "program": "1" * 64, "origin": "",
        "viewport": {"width": 161, "height": 210}, "scale": 1.0, "cell": 56,
    }  # fmt: skip
    keys |= {Surface.model_validate(fields | {name: other[name]}).key for name in other}
    assert len(keys) == 1 + len(other)
