"""The benchmark of policies on a real worker."""

from __future__ import annotations

import pytest
from PIL import Image

from agentserve.bench.plot import draw_policies
from agentserve.bench.policies import measure
from agentserve.bench.scripts import Texts
from agentserve.bench.tape import Tape
from agentserve.bench.worker import BenchWorker
from agentserve.core.errors import InvalidRequest, WorkerLost
from agentserve.core.sessions import ScreenPolicy

from .conftest import ORIGIN

SCREEN_TOKENS = 80


def test_a_mosaic_computes_less_and_keeps_one_screen(
    worker: BenchWorker, tape: Tape, tmp_path
) -> None:
    told = []
    policies = [
        ScreenPolicy(policy="current"),
        ScreenPolicy(policy="mosaic", cell=56, vision_context="cell"),
    ]
    report = measure(worker, tape, policies, Texts(50, 20), ORIGIN, lambda: told.append(1))
    current, mosaic = report.policies
    assert len(told) == 4 * 2 * 2
    assert (current.turns, mosaic.turns) == (4, 4)
    # two cells of four tokens change, beside text; `current` computes its screen anew
    assert mosaic.prefilled_after_first_per_turn < 60
    assert current.prefilled_after_first_per_turn > SCREEN_TOKENS
    assert mosaic.ratio["prefilled_after_first_per_turn"] < 0.6
    assert mosaic.visual_kv_after == current.visual_kv_after == SCREEN_TOKENS
    assert mosaic.visual_kv_peak == SCREEN_TOKENS + 2 * 4
    assert mosaic.lost == mosaic.again.lost == 0
    assert [turn.freed >= 8 for turn in mosaic.by_turn] == [False, True, True, True]
    # of the second session's static cells the first one has left all in the cache
    assert mosaic.again.first_shared == SCREEN_TOKENS - 2 * 4
    assert mosaic.again.first_shared_cached >= 0.6 * mosaic.again.first_shared
    draw_policies([report], tmp_path / "plot.png")
    with Image.open(tmp_path / "plot.png") as drawn:
        assert drawn.width > 500


def test_what_cannot_be_measured_is_told(worker: BenchWorker, tape: Tape) -> None:
    with pytest.raises(WorkerLost, match="no answer"):
        BenchWorker("http://127.0.0.1:9")
    with pytest.raises(InvalidRequest, match="30 px is no multiple"):
        measure(
            worker, tape, [ScreenPolicy(policy="mosaic", cell=30)], Texts(), ORIGIN, lambda: None
        )
