"""``ui_graph``: of areas whose tokens look all the same some go, of everything else nothing.

ShowUI's UI-connected graph (Lin et al., arXiv 2411.17465, section 3.1): tokens are nodes, and
neighbours (right, below) with nearly the same pixels are connected. A component of n tokens keeps
max(1, n - round(n * ratio)) of them, evenly spaced in raster order. A token that is alone always
stays, so the share that goes depends on the screen.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from agentserve.core.pruning import Pruning
from agentserve.vision.pruning.counts import evenly
from agentserve.vision.pruning.view import View

MEAN_SQUARE = 4
"""Two tokens are nearly the same when their channel values, 0 to 255, differ by 2 or less in the
root mean square. A dot of 2 x 2 black px on white makes 18, at 28 px a token."""


def ui_graph(pruning: Pruning, view: View) -> np.ndarray:
    kept: list[int] = []
    for component in components(view.tokens, _edges(view)):
        keep = max(1, len(component) - round(len(component) * pruning.ratio))
        kept += [component[index] for index in evenly(len(component), keep)]
    missing = min(pruning.min_tokens, view.tokens) - len(kept)
    if missing > 0:
        rest = np.setdiff1d(np.arange(view.tokens), kept)
        kept += rest[evenly(len(rest), missing)].tolist()
    return np.array(kept)


def components(nodes: int, edges: Iterable[tuple[int, int]]) -> list[list[int]]:
    """The connected components of a graph, each ascending, in the order of their first nodes."""
    parent = list(range(nodes))

    def root(node: int) -> int:
        while parent[node] != node:
            parent[node] = parent[parent[node]]
            node = parent[node]
        return node

    for one, other in edges:
        low, high = sorted((root(one), root(other)))
        parent[high] = low
    members: dict[int, list[int]] = {}
    for node in range(nodes):
        members.setdefault(root(node), []).append(node)
    return list(members.values())


def _edges(view: View) -> list[tuple[int, int]]:
    """Pairs of covered tokens, as indices into these."""
    number = np.full(view.covered.shape, -1)
    number[view.covered] = np.arange(view.tokens)
    tiles = view.tiles(view.pixels).astype(np.int32)
    pairs = [
        np.stack((number[:, :-1].ravel(), number[:, 1:].ravel()), axis=1),
        np.stack((number[:-1].ravel(), number[1:].ravel()), axis=1),
    ]
    both = np.concatenate(pairs)
    both = both[(both >= 0).all(axis=1)]
    square = np.square(tiles[both[:, 0]] - tiles[both[:, 1]]).sum(axis=(1, 2), dtype=np.int64)
    alike = square <= MEAN_SQUARE * view.grid**2 * 3
    return [(int(one), int(other)) for one, other in both[alike]]
