"""Which tokens of a picture stay, from its pixels alone: decided before anything is computed.

A choice is a pure function of the picture, and of the screen before it where a method looks at
that: the same on every machine, in every version of numpy.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from agentserve.core.pruning import METHODS, Pruning
from agentserve.vision.pruning.evs import evs
from agentserve.vision.pruning.flat import flat
from agentserve.vision.pruning.random import random
from agentserve.vision.pruning.ui_graph import ui_graph
from agentserve.vision.pruning.uniform import uniform
from agentserve.vision.pruning.view import View

__all__ = ["View", "choose", "works_on_pixels"]

_CHOOSERS: dict[str, Callable[[Pruning, View], np.ndarray]] = {
    "uniform": uniform,
    "random": random,
    "flat": flat,
    "evs": evs,
    "ui_graph": ui_graph,
}
"""Each returns int64 indices into the covered tokens in raster order: which of them stay."""


def works_on_pixels(pruning: Pruning) -> bool:
    """Whether ``choose`` knows its method."""
    return METHODS[pruning.method].where == "pixels"


def choose(pruning: Pruning, view: View) -> np.ndarray:
    """Which of the covered tokens stay, bool [rows, columns]; at least one.

    ``uniform``, ``random`` and ``evs`` keep ``kept_count`` of them. To ``flat`` the ratio is a
    ceiling; ``ui_graph`` applies it to each group of equal tokens, so that more or fewer stay.
    Raises KeyError for a method that needs more than pixels.
    """
    kept = _CHOOSERS[pruning.method](pruning, view)
    stays = np.zeros(view.covered.shape, bool)
    stays.flat[np.flatnonzero(view.covered)[kept]] = True
    return stays
