"""``uniform``: evenly spaced in raster order, whatever the picture shows. A baseline."""

from __future__ import annotations

import numpy as np

from agentserve.core.pruning import Pruning, kept_count
from agentserve.vision.pruning.counts import evenly
from agentserve.vision.pruning.view import View


def uniform(pruning: Pruning, view: View) -> np.ndarray:
    return evenly(view.tokens, kept_count(pruning, view.tokens))
