"""The benchmark of policies on a real worker."""

from __future__ import annotations

import io

import numpy as np
import pytest
from PIL import Image

from agentserve.bench.player import Texts
from agentserve.bench.plot import draw_policies
from agentserve.bench.policies import measure
from agentserve.bench.tape import Tape
from agentserve.bench.worker import BenchWorker
from agentserve.core.errors import InvalidRequest, WorkerLost
from agentserve.core.screens import Size, screen_space
from agentserve.core.sessions import ScreenPolicy

SCREEN_TOKENS = 80


@pytest.fixture
def tape() -> Tape:
    """A page of noise of which one corner changes, turn by turn."""
    chance = np.random.default_rng(4)
    page = chance.integers(0, 256, (280, 224, 3), np.uint8)
    screens = []
    for turn in range(4):
        page = page.copy()
        page[:50, 100:130] = 40 * turn
        out = io.BytesIO()
        Image.fromarray(page).save(out, "PNG")
        screens.append(out.getvalue())
    return Tape("noise", tuple(screens), screen_space(Size(width=224, height=280), 1.0, 28))


def test_a_mosaic_computes_less_and_keeps_one_screen(worker_url: str, tape: Tape, tmp_path) -> None:
    worker = BenchWorker(worker_url)
    told = []
    policies = [
        ScreenPolicy(policy="current"),
        ScreenPolicy(policy="mosaic", cell=56, vision_context="cell"),
    ]
    try:
        report = measure(worker, tape, policies, Texts(50, 20), None, lambda: told.append(1))
    finally:
        worker.close()
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


def test_what_cannot_be_measured_is_told(worker_url: str, tape: Tape) -> None:
    with pytest.raises(WorkerLost, match="no answer"):
        BenchWorker("http://127.0.0.1:9")
    worker = BenchWorker(worker_url)
    try:
        with pytest.raises(InvalidRequest, match="30 px is no multiple"):
            measure(
                worker,
                tape,
                [ScreenPolicy(policy="mosaic", cell=30)],
                Texts(),
                None,
                lambda: None,
            )
    finally:
        worker.close()
