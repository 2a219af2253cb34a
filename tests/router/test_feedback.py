from __future__ import annotations

import pytest

from agentserve.core.sessions import Pin, Usage
from agentserve.router.pins.feedback import loss_of

WARM = Pin(worker_id="w", boot_id="b", generation=1, expected_cached_tokens=900)
COLD = WARM.model_copy(update={"expected_cached_tokens": 0})


def loss(pin: Pin, found: int, expected: int, *, moved_prefix: bool = False):
    usage = Usage(cached_tokens=found, stored_prefix_tokens=expected)
    told = loss_of(pin, usage, moved_prefix=moved_prefix)
    return told and (told.reason, told.tokens)


def test_nothing_is_lost_when_all_is_found():
    assert loss(WARM, 900, 900) is None
    assert loss(WARM, 950, 900) is None  # others had more of it
    assert loss(COLD, 0, 0) is None  # a first turn


@pytest.mark.parametrize(
    ("pin", "reason"),
    [
        (WARM, "evicted"),
        (COLD, "evicted"),  # a fork, whose parent's prefix is gone
        (COLD.model_copy(update={"moved": "restarted"}), "restarted"),
        (COLD.model_copy(update={"moved": "down"}), "moved"),
        (COLD.model_copy(update={"moved": "lost"}), "moved"),
        # a turn ran there since: it is the worker that lost it
        (WARM.model_copy(update={"moved": "restarted"}), "evicted"),
    ],
)
def test_the_reason_is_how_the_pin_came_here(pin: Pin, reason: str):
    assert loss(pin, 100, 900) == (reason, 800)


def test_a_declared_move_of_the_prefix_is_its_own_reason():
    assert loss(WARM, 40, 30, moved_prefix=True) == ("prefix_moved", 860)
    assert loss(COLD, 40, 30, moved_prefix=True) is None
