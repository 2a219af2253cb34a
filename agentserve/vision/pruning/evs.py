"""``evs``: what changed most since the screen before stays.

Efficient Video Sampling (Bagrov et al., arXiv 2510.14624, section 3): the dissimilarity of a patch
is the L1 distance of its pixels to those at the same place of the frame before, and the patches
above the q-th percentile stay. Here the percentile is of one picture, not of a whole video, and
exact: of equally dissimilar tokens the first in raster order stay. As in the paper all of a first
picture stays.
"""

from __future__ import annotations

import numpy as np

from agentserve.core.pruning import Pruning, kept_count
from agentserve.vision.pruning.view import View


def evs(pruning: Pruning, view: View) -> np.ndarray:
    if view.before is None:
        return np.arange(view.tokens)
    now, before = (view.tiles(pixels) for pixels in (view.pixels, view.before))
    distance = np.maximum(now, before) - np.minimum(now, before)  # stays uint8
    change = distance.sum(axis=(1, 2), dtype=np.int64)
    most = np.argsort(-change, kind="stable")
    return most[: kept_count(pruning, view.tokens)]
