"""Placement: single choices, and 10,000 sessions by simulation."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace

import pytest

from agentserve.router.pins.placement import BALANCE, TURN_TOKENS, Arrival, Load, place, rendezvous

SCREEN = 960
PREFIX = 700
"""Of these, and of the system text, what sessions of a surface share."""


def pick(*loads: Load, session: str = "s", prompt: int = 1000) -> str | None:
    return place(Arrival(session, prompt), loads)


def load(name: str, **known: int) -> Load:
    return Load(name, **{"capacity": 100_000, **known})


def test_nothing_to_choose_from():
    assert pick() is None


def test_the_shared_prefix_draws():
    assert pick(load("a", sessions=3, held=3000, shared=700), load("b", sessions=3)) == "a"


def test_a_prefix_is_worth_its_tokens_and_no_more():
    behind_one = load("a", shared=TURN_TOKENS + 1, running=1)
    assert pick(behind_one, load("b")) == "a"
    assert pick(replace(behind_one, shared=TURN_TOKENS - 1), load("b")) == "b"
    # more than the prompt has cannot be saved
    assert pick(load("a", shared=9000, running=2), load("b"), prompt=900) == "b"


def test_a_popular_worker_does_not_draw_any_more():
    assert pick(load("a", sessions=6, shared=900), load("b", sessions=4)) == "a"
    assert pick(load("a", sessions=9, shared=900), load("b", sessions=4)) == "b"


def test_room_counts_in_tokens():
    few_but_large = load("a", sessions=2, held=99_500)
    assert pick(few_but_large, load("b", sessions=40, held=40_000)) == "b"
    # each has room: the emptier one
    assert pick(load("a", held=50_000), load("b", held=40_000)) == "b"
    assert pick(load("a", held=50_000), load("b", held=40_000, capacity=50_000)) == "a"


def test_what_does_not_fit_goes_where_it_drives_out_least():
    full = load("a", held=100_000, sessions=1)
    fuller = load("b", held=300_000, sessions=1)
    assert pick(full, fuller) == "a"
    # what holds nothing has nothing to lose, whatever its size
    assert pick(full, load("b", capacity=10), prompt=20_000) == "b"


def test_equal_workers_spread_by_session_and_repeat():
    loads = [load(name) for name in "abc"]
    picks = [pick(*loads, session=f"s{n}") for n in range(300)]
    assert picks == [pick(*reversed(loads), session=f"s{n}") for n in range(300)]
    assert all(70 < count < 130 for count in Counter(picks).values())
    fewer = [pick(*loads[:2], session=f"s{n}") for n in range(300)]
    assert all(a == b for a, b in zip(picks, fewer, strict=True) if a != "c")


class Fleet:
    """Workers that get sessions, and remember the last surfaces that were shown to them."""

    def __init__(self, capacities: list[int]) -> None:
        self.loads = {f"w{n}": Load(f"w{n}", capacity) for n, capacity in enumerate(capacities)}
        self.surfaces: dict[str, set[int]] = {name: set() for name in self.loads}
        self.prefilled = 0

    def seen(self, surface: int) -> list[Load]:
        return [
            replace(load, shared=PREFIX if surface in self.surfaces[name] else 0)
            for name, load in self.loads.items()
        ]

    def take(self, name: str, surface: int) -> None:
        old = self.loads[name]
        self.prefilled += SCREEN - (PREFIX if surface in self.surfaces[name] else 0)
        self.surfaces[name].add(surface)
        self.loads[name] = replace(old, held=old.held + SCREEN, sessions=old.sessions + 1)


def arrivals(surfaces: int, count: int = 10_000) -> list[tuple[str, int]]:
    """Session ids, and their surfaces: few are popular, most are rare (Zipf)."""
    draw = random.Random(surfaces)
    weights = [1 / (rank + 1) for rank in range(surfaces)]
    return [(f"s{n}", of) for n, of in enumerate(draw.choices(range(surfaces), weights, k=count))]


@pytest.mark.parametrize("surfaces", [1, 40, 2000])
def test_ten_thousand_sessions(surfaces: int):
    """Within the bound of the mean at every step, and less to prefill than by hashing."""
    ours, hashed = Fleet([2_000_000] * 8), Fleet([2_000_000] * 8)
    for number, (session, surface) in enumerate(arrivals(surfaces)):
        chosen = place(Arrival(session, SCREEN), ours.seen(surface))
        ours.take(chosen, surface)
        hashed.take(min(hashed.loads, key=lambda name: rendezvous(session, name)), surface)
        most = max(one.sessions for one in ours.loads.values())
        assert most <= BALANCE * (number + 1) / 8 + 1
    assert ours.prefilled < hashed.prefilled


def test_workers_fill_in_proportion_to_their_size():
    fleet = Fleet([1_000_000, 2_000_000, 4_000_000])
    for session, surface in arrivals(5000, count=7000):
        fleet.take(place(Arrival(session, SCREEN), fleet.seen(surface)), surface)
    shares = [one.held / one.capacity for one in fleet.loads.values()]
    assert max(shares) < 1.3 * min(shares)
