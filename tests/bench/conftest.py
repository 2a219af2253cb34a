"""What the benchmarks play in tests."""

from __future__ import annotations

import io
from collections.abc import Iterator

import numpy as np
import pytest
from PIL import Image

from agentserve.bench.origin import Origin
from agentserve.bench.tape import Tape
from agentserve.bench.worker import BenchWorker
from agentserve.core.screens import Size, screen_space

ORIGIN = Origin(command="pytest", commit=None)


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


@pytest.fixture
def worker(worker_url: str) -> Iterator[BenchWorker]:
    client = BenchWorker(worker_url)
    yield client
    client.close()
