"""How many tokens stay, and an even choice of so many."""

from __future__ import annotations

import numpy as np

from agentserve.core.pruning import Pruning


def kept_count(pruning: Pruning, tokens: int) -> int:
    """How many of an item's ``tokens``, at least one, stay when a method takes its full ratio."""
    # of 100 tokens 29 % are 29, though 100 * 0.29 is a little less
    dropped = int(tokens * pruning.ratio + 1e-9)
    return min(tokens, max(tokens - dropped, pruning.min_tokens))


def evenly(count: int, keep: int) -> np.ndarray:
    """``keep`` of ``count`` indices, int64 ascending: the middles of so many equal stretches.

    8 indices, 3 of them:   0 1 2 3 4 5 6 7
                              ▲     ▲   ▲
    """
    return (2 * np.arange(keep) + 1) * count // (2 * keep)
