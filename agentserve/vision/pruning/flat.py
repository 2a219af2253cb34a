"""``flat``: tokens that show next to nothing go, the emptiest first.

How much a token of n pixels shows is the entropy of its colours, the highest of the channels':

    H = log2(n) - (1/n) * sum over v of c(v) * log2(c(v))    c(v) pixels have the value v

0 bits is one colour. Only flat tokens ever go, so the ratio is a ceiling: a picture full of text
stays whole. Of equally flat tokens the first in raster order go first.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np

from agentserve.core.pruning import Pruning, kept_count
from agentserve.vision.pruning.view import View

FLAT_BITS = 0.1
"""Below this entropy a token is flat: 10 of 28 x 28 pixels may have another colour, a line of 1 px
across it (0.22 bits) or half a caret (0.13) may not."""

_ONE = 1 << 20
"""Sums are in integers, in units of 1/_ONE: equal histograms have equal sums everywhere."""


def flat(pruning: Pruning, view: View) -> np.ndarray:
    weight = sameness(view.tiles(view.pixels))
    pixels = view.grid**2
    is_flat = weight > (math.log2(pixels) - FLAT_BITS) * pixels * _ONE
    emptiest = np.argsort(-weight, kind="stable")
    going = emptiest[is_flat[emptiest]][: view.tokens - kept_count(pruning, view.tokens)]
    return np.setdiff1d(np.arange(view.tokens), going)


def sameness(tiles: np.ndarray) -> np.ndarray:
    """int64 [tokens]: the sum in H, the lowest of the channels', in units of 1/_ONE; the lower the
    entropy, the higher. ``tiles`` are uint8 [tokens, pixels, 3]."""
    tokens, pixels, channels = tiles.shape
    bins = np.arange(tokens)[:, None] * 256
    table = _weights(pixels)
    sums = []
    for channel in range(channels):
        counts = np.bincount((bins + tiles[..., channel]).ravel(), minlength=tokens * 256)
        sums.append(table[counts].reshape(tokens, 256).sum(axis=1))
    return np.min(sums, axis=0)


@lru_cache(maxsize=4)
def _weights(pixels: int) -> np.ndarray:
    """c * log2(c) for c from 0 to ``pixels``."""
    logs = (count * math.log2(count) if count else 0.0 for count in range(pixels + 1))
    return np.array([round(value * _ONE) for value in logs])
