from __future__ import annotations

import numpy as np

from agentserve.core.pruning import Pruning
from agentserve.vision.pruning import choose

from .pictures import picture, sketch, view


def test_every_so_many_in_raster_order():
    stays = choose(Pruning(method="uniform", ratio=0.5), view(picture("aaaa", "bbbb")))
    assert sketch(stays) == [".x.x", ".x.x"]


def test_only_the_covered_count():
    covered = np.array([[1, 1, 0, 1], [0, 1, 1, 1]], bool)
    stays = choose(Pruning(method="uniform", ratio=0.5), view(picture("aaaa", "bbbb"), covered))
    assert sketch(stays) == [".x..", ".x.x"]
