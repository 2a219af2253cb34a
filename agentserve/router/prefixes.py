"""What each worker has of a surface's shared prefix, as the turns of this router have shown.

In memory only: a guess for placing sessions. What a worker has lost since is seen by the next turn
that begins there, which computes it again.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence

from agentserve.core.plans import Piece, Sha256, VisualItem, num_tokens
from agentserve.core.workers import Worker

REMEMBERED = 4096
"""Pairs of a surface and a worker."""


def shared_tokens(pieces: Sequence[Piece]) -> int:
    """First tokens of a prompt that other sessions of its surface begin with as well: up to its
    last shared cell; 0 without one."""
    last = 0
    for index, piece in enumerate(pieces, start=1):
        if isinstance(piece, VisualItem):
            if not piece.shared:
                break
            last = index
    return num_tokens(pieces[:last])


class SharedPrefixes:
    """Of all surfaces and workers; the longest unseen are forgotten."""

    def __init__(self) -> None:
        self._known: OrderedDict[tuple[Sha256, str], tuple[str, int]] = OrderedDict()
        """(Surface, worker) -> (its life, tokens); the last seen is the last."""

    def note(self, surface: Sha256, worker: Worker, tokens: int) -> None:
        """A turn has just left so many first tokens in the worker's cache."""
        place = (surface, worker.id)
        self._known.pop(place, None)
        self._known[place] = (worker.boot_id, tokens)
        if len(self._known) > REMEMBERED:
            self._known.popitem(last=False)

    def tokens(self, surface: Sha256, worker: Worker) -> int:
        boot_id, tokens = self._known.get((surface, worker.id), ("", 0))
        return tokens if boot_id == worker.boot_id else 0
