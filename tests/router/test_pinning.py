from __future__ import annotations

from collections import Counter

import pytest

from agentserve.core.sessions import Pin
from agentserve.core.workers import Worker, WorkerState
from agentserve.router.pins.pinning import (
    Need,
    binding_of,
    fits,
    pick_for_name,
    pick_worker,
    why_lost,
)
from agentserve.router.pins.placement import Arrival
from agentserve.testing.worker import FakeWorker


def worker(name: str, *, state: str = "ready", sessions: int = 0, running: int = 0, **report):
    plain = report.pop("plain", False)
    told = FakeWorker(**report).report()
    return Worker(
        id=name,
        url=f"http://{name}",
        state=WorkerState(state),
        boot_id="b1",
        report=None if plain else told,
        sessions=sessions,
        running_turns=running,
    )


def pick(workers, need: Need | None = None, session: str = "s"):
    chosen = pick_worker(Arrival(session, 1000), workers, need or Need())
    return chosen.id if chosen else None


def test_workers_are_weighed_by_what_is_known_of_them():
    assert pick([worker("a", sessions=3), worker("b", sessions=2)]) == "b"
    assert pick([worker("a", sessions=2, running=1), worker("b", sessions=9)]) == "b"
    roomy = worker("b").model_copy(update={"held_tokens": 10, "sessions": 9})
    full = worker("a").model_copy(update={"held_tokens": worker("a").report.max_total_tokens})
    assert pick([full, roomy]) == "b"


def test_what_a_worker_has_of_the_prompt_draws():
    workers = [worker("a", sessions=1), worker("b", sessions=1)]
    for name in "ab":
        shared = {name: 700}
        chosen = pick_worker(
            Arrival("s", 1000), workers, Need(), lambda w, has=shared: has.get(w.id, 0)
        )
        assert chosen is not None and chosen.id == name


def test_equal_workers_spread_by_session_and_repeat():
    workers = [worker(name) for name in "abc"]
    picks = [pick(workers, session=f"s{n}") for n in range(300)]
    assert picks == [pick(workers[::-1], session=f"s{n}") for n in range(300)]
    assert all(70 < count < 130 for count in Counter(picks).values())
    # without c, only c's sessions go elsewhere
    fewer = [pick(workers[:2], session=f"s{n}") for n in range(300)]
    assert all(a == b for a, b in zip(picks, fewer, strict=True) if a != "c")


@pytest.mark.parametrize("state", ["starting", "down", "refused"])
def test_only_ready_workers(state):
    assert pick([worker("a", state=state)]) is None


def test_plain_workers_hold_no_sessions():
    assert binding_of(worker("a", plain=True)) is None
    assert pick([worker("a", plain=True)]) is None


def test_names_go_by_running_turns_and_hash_alone():
    pinned, busy = worker("a", sessions=9), worker("b", running=1)
    assert pick_for_name("n", [pinned, busy]).id == "a"
    idle = [worker("a", sessions=9), worker("b")]
    assert {pick_for_name(f"n{n}", idle).id for n in range(30)} == {"a", "b"}
    assert pick_for_name("n", []) is None


def test_the_model_is_asked_for_by_either_name():
    workers = [worker("a", model="m1"), worker("b", model="m2")]
    assert pick(workers, Need(model="m2")) == "b"
    assert pick(workers, Need(model="models/m1")) == "a"
    assert pick(workers, Need(model="m3")) is None


def test_a_placed_session_needs_the_same_model_and_tokenizer():
    binding = binding_of(worker("a", model="m1"))
    assert binding.family == "qwen2_5_vl"
    assert fits(worker("b", model="m1"), Need(binding=binding))
    assert not fits(worker("b", model="m2"), Need(binding=binding))
    assert not fits(worker("b", model="m1", tokenizer="{}\n"), Need(binding=binding))
    other = worker("b", model="m1", architecture="Qwen3VLForConditionalGeneration")
    assert not fits(other, Need(binding=binding))


def test_why_a_pin_is_lost():
    pin = Pin(worker_id="a", boot_id="b1", generation=1)
    assert why_lost(pin, worker("a")) is None
    assert why_lost(pin, None) == "gone"
    assert why_lost(pin, worker("a", state="down")) == "down"
    assert why_lost(pin.model_copy(update={"boot_id": "b0"}), worker("a")) == "restarted"
