"""``random``: by lots that the picture's content decides. A baseline.

The same picture gives the same set in every session, so that it can be shared. A lot is the SHA-256
of the picture's identity and the token's index: no generator whose stream another version changes.
"""

from __future__ import annotations

import hashlib

import numpy as np

from agentserve.core.pruning import Pruning, kept_count
from agentserve.vision.cells import identity
from agentserve.vision.pruning.view import View


def random(pruning: Pruning, view: View) -> np.ndarray:
    picture = identity(view.pixels)
    lots = [
        hashlib.sha256(f"{picture}:{token}".encode()).digest()
        for token in np.flatnonzero(view.covered)
    ]
    order = sorted(range(len(lots)), key=lots.__getitem__)
    return np.array(order[: kept_count(pruning, view.tokens)])
