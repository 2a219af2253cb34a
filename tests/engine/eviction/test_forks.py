"""Sessions that go on from the same turn: none changes what another has, or holds what none has."""

from __future__ import annotations

import pytest

from ..items.asking import NEW_TOKENS, Worker
from .sessions import PARTS, Session, Turn, slots_in_use
from .turns import UNSTORED, change, change_found, changed, started

pytestmark = pytest.mark.timeout(900)


def gone(session: Session, turn: Turn) -> int:
    """How many tokens left with the turn's answer."""
    return turn.answer.prompt_tokens + NEW_TOKENS - session.live


@pytest.mark.parametrize("order", [("fork", "parent"), ("parent", "fork")])
def test_a_fork_and_its_parent_go_on(cold: Worker, order: tuple[str, str]):
    parent = started(cold, "parent")
    change_found(parent, 1, 10)
    sessions = {"parent": parent, "fork": parent.fork("fork")}
    for seed, name in enumerate(order):
        outcome = change_found(sessions[name], 2, 40 + seed).outcome
        assert outcome["adopted"] == 0
        assert outcome["copied"] > 0
    for seed, name in enumerate(order):
        assert change_found(sessions[name], 3, 60 + seed).outcome["adopted"] > 0


def test_a_fork_that_has_not_gone_on_is_known_to_third_ones(cold: Worker):
    parent, third = started(cold, "parent"), started(cold, "third")
    fork = parent.fork("fork")
    change_found(parent, 1, 10)
    assert change_found(third, 1, 11).outcome["adopted"] == 0
    change_found(fork, 1, 12)


def test_what_a_prompt_adds_behind_a_fork_is_its_own(cold: Worker):
    parent = Session(cold, "parent")
    parent.turn(changed(2, 10), PARTS[:2])
    parent.fork("fork")
    added = parent.turn(changed(2, 10), [PARTS[2]], "more")
    assert added.outcome["reason"] == "nothing is to leave"
    turn = parent.turn(changed(2, 11), [PARTS[2]], "other")
    assert (turn.outcome["copied"], turn.outcome["freed"]) == (0, gone(parent, turn))
    # what the fork goes on from is the beginning of it
    assert slots_in_use(cold.client) == parent.live - UNSTORED


def test_a_fork_that_was_lost_holds_nothing_of_a_stranger_s(cold: Worker):
    parent = started(cold, "parent")
    change_found(parent, 1, 10)
    parent.fork("fork")
    cold.flush()
    stranger = started(cold, "stranger")
    turn = change(parent, 0, 11)
    # of what all begin with it has found some, and of that a part has left it
    assert 0 < turn.answer.cached < stranger.live - UNSTORED
    turn = change_found(stranger, 0, 12)
    assert (turn.outcome["copied"], turn.outcome["freed"]) == (0, gone(stranger, turn))
