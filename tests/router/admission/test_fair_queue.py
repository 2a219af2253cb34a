"""The order of starts, and the limits, over random comings and goings."""

from __future__ import annotations

import random
import time
from collections import Counter

import pytest

from agentserve.router.admission.fair_queue import (
    Entry,
    FairQueue,
    LimitsOf,
    QueueFull,
    State,
    TenantLimits,
)


def unlimited(name: str) -> TenantLimits:
    return TenantLimits()


class Driven:
    """A queue with what it told. ``entries`` are all that have not left."""

    def __init__(self, running: int, queued: int = 1_000_000, limits: LimitsOf = unlimited) -> None:
        self.told: list[Entry] = []
        self.queue = FairQueue(running, queued, limits, self.told.append)
        self.entries: dict[Entry, None] = {}

    def enter(self, name: str) -> Entry:
        entry = self.queue.enter(name)
        self.entries[entry] = None
        return entry

    def leave(self, entry: Entry) -> None:
        del self.entries[entry]
        self.queue.leave(entry)

    def running(self) -> list[Entry]:
        return [entry for entry in self.entries if entry.state is State.RUNNING]

    def next(self) -> str:
        """Ends one that runs; which tenant starts for it."""
        before = len(self.told)
        last = self.told[-1] if self.told else None
        if last not in self.entries or last.state is not State.RUNNING:
            last = next(e for e in self.entries if e.state is State.RUNNING)
        self.leave(last)
        assert len(self.told) == before + 1
        return self.told[-1].tenant.name


def name_of(entry: Entry) -> str:
    return entry.tenant.name


def test_a_tenant_is_served_in_the_order_it_came():
    driven = Driven(1)
    first, *rest = [driven.enter("a") for _ in range(5)]
    assert [entry.ahead for entry in rest] == [0, 1, 2, 3]
    driven.leave(rest[1])  # it does not wait any more
    started = []
    for entry in (first, rest[0], rest[2]):
        driven.leave(entry)
        started.append(driven.told[-1])
    assert started == [rest[0], rest[2], rest[3]]


def test_a_crowd_of_one_tenant_does_not_hold_up_another():
    driven = Driven(1)
    for _ in range(100):
        driven.enter("crowd")
    driven.enter("one")
    assert [driven.next(), driven.next()] in (["crowd", "one"], ["one", "crowd"])


def test_weights_share_the_starts():
    weights = {"a": 1.0, "b": 2.0, "c": 4.0}
    driven = Driven(1, limits=lambda name: TenantLimits(weight=weights[name]))
    for name in weights:
        for _ in range(400):
            driven.enter(name)
    starts: Counter[str] = Counter()
    for _ in range(350):
        starts[driven.next()] += 1
        shares = {name: starts[name] / weight for name, weight in weights.items()}
        for f in weights:
            for g in weights:
                assert abs(shares[f] - shares[g]) <= 1 / weights[f] + 1 / weights[g] + 1e-9
    assert starts["c"] > 3 * starts["a"]


def test_a_thousand_waiting_tenants_are_never_more_than_one_start_apart():
    driven = Driven(16)
    names = [f"t{number}" for number in range(1000)]
    draw = random.Random(5)
    for name in names:
        for _ in range(draw.randint(4, 40)):  # crowds of all sizes
            driven.enter(name)
    starts: Counter[str] = Counter(dict.fromkeys(names, 0))
    for _ in range(3000):  # nobody runs out of work meanwhile
        starts[driven.next()] += 1
        assert driven.queue.running == 16
        if sum(starts.values()) % 500 == 0:
            # the 16 at the beginning were free: nobody waited yet
            assert max(starts.values()) - min(starts.values()) <= 1
    assert min(starts.values()) >= 2


def test_whoever_comes_is_passed_by_each_other_tenant_once_at_most():
    driven = Driven(1)
    draw = random.Random(6)
    others = [f"t{number}" for number in range(50)]
    for name in others * 100:
        driven.enter(name)
    for _ in range(20):
        for _ in range(draw.randint(0, 70)):
            driven.next()
        late = driven.enter("late")
        passed: Counter[str] = Counter()
        while late.state is State.QUEUED:
            passed[driven.next()] += 1
        del passed["late"]
        assert max(passed.values(), default=0) <= 1
        driven.next()


def test_leaving_and_coming_again_wins_nothing():
    driven = Driven(1)
    for _ in range(60):
        driven.enter("steady")
    starts: Counter[str] = Counter()
    for _ in range(60):
        if not any(name_of(entry) == "clever" for entry in driven.entries):
            driven.enter("clever")  # never more than one: it is forgotten each time it ends
        starts[driven.next()] += 1
    assert starts["clever"] <= starts["steady"] + 2


def test_a_tenant_at_its_own_limit_waits_while_others_run():
    driven = Driven(4, limits=lambda name: TenantLimits(max_running=1 if name == "held" else 0))
    held = [driven.enter("held") for _ in range(5)]
    assert [entry.state for entry in held] == [State.RUNNING, *[State.QUEUED] * 4]
    free = [driven.enter("free") for _ in range(4)]
    assert [entry.state for entry in free] == [*[State.RUNNING] * 3, State.QUEUED]
    driven.leave(held[0])
    # two may come for the place: its own next, and the one that waited
    assert driven.told[-1] in (held[1], free[3])
    assert driven.queue.running == 4


def test_a_raised_limit_lets_those_that_wait_run():
    allowed = {"a": 1}
    driven = Driven(4, limits=lambda name: TenantLimits(max_running=allowed[name]))
    one, two, three = (driven.enter("a") for _ in range(3))
    assert (two.state, three.state) == (State.QUEUED, State.QUEUED)
    allowed["a"] = 3
    four = driven.enter("a")
    states = [entry.state for entry in (one, two, three, four)]
    assert states == [*[State.RUNNING] * 3, State.QUEUED]
    assert driven.told == [two, three]


def test_the_two_limits_of_the_queue():
    driven = Driven(1, queued=5, limits=lambda name: TenantLimits(max_queued=3))
    for _ in range(4):
        driven.enter("a")
    with pytest.raises(QueueFull) as own:
        driven.enter("a")
    assert (own.value.whose, own.value.ahead, own.value.running) == ("tenant", 3, 1)
    for _ in range(2):
        driven.enter("b")
    with pytest.raises(QueueFull) as total:
        driven.enter("b")  # it would have as many as the greatest crowd then
    assert (total.value.whose, total.value.ahead, total.value.running) == ("total", 5, 1)
    assert driven.told == []


def test_a_full_queue_makes_room_for_whoever_has_less_in_it():
    driven = Driven(1, queued=10)
    crowd = [driven.enter("crowd") for _ in range(11)]
    others = [driven.enter(f"t{number}") for number in range(4)]
    assert [entry.state for entry in others] == [State.QUEUED] * 4
    assert [entry.state for entry in crowd[-4:]] == [State.PUSHED_OUT] * 4  # the last came last
    assert driven.told == crowd[:-5:-1]
    assert driven.queue.queued == 10
    for entry in crowd[-4:]:
        driven.leave(entry)
    assert driven.queue.queued == 10


@pytest.mark.parametrize("seed", range(60))
def test_no_place_is_lost_or_doubled_over_random_schedules(seed: int):
    draw = random.Random(seed)
    names = [f"t{number}" for number in range(draw.choice((1, 2, 5, 40)))]
    total, queued = draw.choice((1, 3, 16)), draw.choice((0, 4, 30))
    limits = {
        name: TenantLimits(draw.choice((0, 1, 2)), draw.choice((0, 0, 3)), draw.choice((0.5, 1, 3)))
        for name in names
    }
    driven = Driven(total, queued, lambda name: limits[name])
    for _ in range(400):
        if driven.entries and draw.random() < 0.5:
            driven.leave(draw.choice(list(driven.entries)))
        else:
            name = draw.choice(names)
            if draw.random() < 0.05:
                limits[name] = TenantLimits(draw.choice((0, 1, 4)))
            try:
                driven.enter(name)
            except QueueFull as full:
                assert driven.queue.queued == queued or full.whose == "tenant"
        check(driven, total, queued, limits)
    for entry in list(driven.entries):
        driven.leave(entry)
    assert (driven.queue.running, driven.queue.queued, driven.queue.tenants) == (0, 0, 0)


def check(driven: Driven, total: int, queued: int, limits: dict[str, TenantLimits]) -> None:
    states = Counter(entry.state for entry in driven.entries)
    assert driven.queue.running == states[State.RUNNING] <= total
    assert driven.queue.queued == states[State.QUEUED] <= queued
    running = Counter(name_of(entry) for entry in driven.running())
    waiting = [e for e in driven.entries if e.state is State.QUEUED]
    # nobody waits for a place that is free and that it may have, as its limit was told last
    for entry in waiting:
        own = entry.tenant.limits.max_running
        assert states[State.RUNNING] == total or 0 < own <= running[name_of(entry)]
    known = {name_of(entry) for entry in driven.entries if entry.state is not State.PUSHED_OUT}
    assert len(known) <= driven.queue.tenants <= len(limits)


def test_tenants_are_forgotten_while_others_wait():
    """A queue that is never empty must not remember all that ever came."""
    driven = Driven(1)
    for _ in range(40):
        driven.enter("steady")
    for number in range(2000):
        driven.enter(f"passing{number}")
        driven.enter("steady")
        driven.next()
        driven.next()
    assert driven.queue.queued >= 39
    assert driven.queue.tenants < 60


def test_ten_thousand_that_wait_are_cheap():
    """Both ways take some 10 us each; anything that walked the queue would take a minute."""
    driven = Driven(16)
    begun = time.perf_counter()
    entries = [driven.queue.enter(f"t{number % 1000}") for number in range(10_000)]
    for entry in entries[5000::2]:
        driven.queue.leave(entry)  # these do not wait any more
    for entry in entries:
        driven.queue.leave(entry)
    assert time.perf_counter() - begun < 10
    assert (driven.queue.running, driven.queue.queued, driven.queue.tenants) == (0, 0, 0)
