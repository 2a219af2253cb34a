"""A worker that is started again finds what the vision encoder made before, in a folder."""

from __future__ import annotations

import io
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from agentserve.bench.player import SessionPlayer, TurnFigures
from agentserve.bench.scripts import Filler, Texts
from agentserve.bench.tape import Tape
from agentserve.bench.worker import BenchWorker
from agentserve.core.config import FeatureCacheConfig
from agentserve.core.screens import Size, screen_space
from agentserve.core.sessions import ScreenPolicy
from agentserve.vision.layouts import Layout

from ..processes import start_worker, stop_worker

CELLS = 4 * 5
WRITTEN_S = 30.0


def tape() -> Tape:
    """Noise, of which one cell changes."""
    chance = np.random.default_rng(8)
    page = chance.integers(0, 256, (280, 224, 3), np.uint8)
    screens = []
    for _ in range(2):
        out = io.BytesIO()
        Image.fromarray(page).save(out, "PNG")
        screens.append(out.getvalue())
        page = page.copy()
        page[60:100, 60:100] = 7
    return Tape("noise", tuple(screens), screen_space(Size(width=224, height=280), 1.0, 28))


def play(url: str, owner: str) -> list[TurnFigures]:
    worker = BenchWorker(url)
    try:
        screens = ScreenPolicy(policy="mosaic", cell=56, vision_context="cell")
        script = Filler(worker, Texts(20, 10), owner)
        player = SessionPlayer(worker, screens, tape(), owner, script, Layout())
        return [player.turn(number).figures for number in range(2)]
    finally:
        worker.close()


@pytest.mark.soak
@pytest.mark.timeout(900)  # three starts of a worker
def test_a_restarted_worker_encodes_nothing_again(tmp_path: Path) -> None:
    folder = tmp_path / "features"

    def on_a_new_worker(run: Callable[[str], None]) -> None:
        own = start_worker(tmp_path, feature_cache=FeatureCacheConfig(folder=str(folder)))
        try:
            own.wait_ready()
            run(own.url)
        finally:
            stop_worker(own)

    def fill(url: str) -> None:
        assert [turn.encoded for turn in play(url, "first")] == [CELLS, 1]
        end = time.monotonic() + WRITTEN_S  # written in the background
        while len(entries(folder)) < CELLS + 1:
            assert time.monotonic() < end, f"{len(entries(folder))} files"
            time.sleep(0.1)

    def find(url: str) -> None:
        # the vision encoder has nothing to do, whoever asks
        assert [turn.encoded for turn in play(url, "second")] == [0, 0]

    on_a_new_worker(fill)
    on_a_new_worker(find)
    damaged = entries(folder)[3]
    damaged.write_bytes(damaged.read_bytes()[:-9])

    def find_all_but_one(url: str) -> None:
        assert sum(turn.encoded for turn in play(url, "third")) == 1

    on_a_new_worker(find_all_but_one)


def entries(folder: Path) -> list[Path]:
    return sorted(folder.rglob("*.safetensors"))
