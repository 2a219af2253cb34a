"""An even choice of so many tokens."""

from __future__ import annotations

import numpy as np


def evenly(count: int, keep: int) -> np.ndarray:
    """``keep`` of ``count`` indices, int64 ascending: the middles of so many equal stretches.

    8 indices, 3 of them:   0 1 2 3 4 5 6 7
                              ▲     ▲   ▲
    """
    return (2 * np.arange(keep) + 1) * count // (2 * keep)
