"""Random sessions on workers of several kinds: each slot has one owner, what is left is found."""

from __future__ import annotations

from pathlib import Path
from typing import get_args

import pytest

from agentserve.core.pruning import METHODS, Compression, Eviction, EvictionMethod, Pruning

from ..checked import checked_worker
from ..items.asking import Worker
from .randomly import Crowd
from .sessions import slots_in_use

pytestmark = [pytest.mark.soak, pytest.mark.timeout(3600)]


def exact(crowd: Crowd) -> None:
    assert slots_in_use(crowd.worker.client) == crowd.held


def alive(crowd: Crowd) -> None:
    """The worker ends itself when its own checks fail."""
    assert slots_in_use(crowd.worker.client) >= 0


@pytest.mark.parametrize("seed", range(50))
def test_every_slot_is_accounted_for(worker: Worker, seed: int, record_property):
    worker.flush()
    crowd = Crowd(worker, seed)
    crowd.play(40, exact)
    record_property("sessions", crowd.count)
    record_property("turns", crowd.turns)
    record_property("released", crowd.released)


EVERY_METHOD = [
    Compression(),
    *(
        Compression(pruning=Pruning(method=name, ratio=ratio))
        for name, method in METHODS.items()
        for ratio in (0.3, 0.7)
        if method.where != "pixels"  # these only send other keep sets
    ),
    *(Compression(eviction=Eviction(method=name)) for name in get_args(EvictionMethod)),
    Compression(
        pruning=Pruning(method="sparsevlm", ratio=0.5, recycle=True, adaptive=True),
        eviction=Eviction(method="look_m", keep=0.3),
    ),
    Compression(pruning=Pruning(method="fastv"), eviction=Eviction(method="attention", keep=0.2)),
    Compression(pruning=Pruning(method="tome"), eviction=Eviction(method="random", keep=0.3)),
]


@pytest.mark.parametrize("seed", range(50))
def test_every_slot_is_accounted_for_with_every_method_mixed_in(
    worker: Worker, seed: int, record_property
):
    worker.flush()
    crowd = Crowd(worker, seed, compressions=EVERY_METHOD)
    crowd.play(40, exact)
    assert crowd.left_out
    record_property("sessions", crowd.count)
    record_property("turns", crowd.turns)


def test_the_python_tree_one_batch_after_the_other(tmp_path: Path, checkpoint: Path):
    core = {"SGLANG_UNIFIED_RADIX_TREE_CORE_BACKEND": "python"}
    arguments = ("--disable-overlap-schedule", "--enable-mixed-chunk")
    with checked_worker(tmp_path, checkpoint, *arguments, **core) as worker:
        for seed in range(5):
            worker.flush()
            Crowd(worker, seed).play(40, exact)


def test_little_room_and_requests_that_are_put_back(tmp_path: Path, checkpoint: Path):
    retract = {"SGLANG_TEST_RETRACT": "1"}
    with checked_worker(tmp_path, checkpoint, "--max-total-tokens", "520", **retract) as worker:
        for seed in range(5):
            crowd = Crowd(worker, seed, expect_found=False)
            crowd.play(40, alive)
            assert crowd.rebuilt


def test_larger_pages_keep_what_comes_before_what_leaves(tmp_path: Path, checkpoint: Path):
    with checked_worker(tmp_path, checkpoint, "--page-size", "16") as worker:
        crowd = Crowd(worker, 0, expect_found=False)
        crowd.play(40, alive)
        assert not crowd.copied
        assert crowd.reasons == {"nothing is to leave", "the page size is 16, not 1"}
