"""Which requests of a batch are pruned, and what came of it. Pure, but for the tensors.

the prompt        │ cached │ text │ item ▓▓▓▓▓▓ │ text │ item ▓▓▓ │ text │
the request's rows         │ text │ item ▓▓▓▓▓▓ │ text │ item ▓▓▓ │ text │
                           prefix    candidates          candidates  voices
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from torch import Tensor

from agentserve.core.pruning import Eviction, Pruning
from agentserve.engine.eviction.change import Change


@dataclass(frozen=True)
class Extent:
    """What of a request's prompt a batch computes."""

    prefix: int
    """Tokens before it whose KV is there."""
    rows: int

    @property
    def end(self) -> int:
        """Tokens whose KV is there afterwards."""
        return self.prefix + self.rows


@dataclass(eq=False)
class Chosen:
    """What was chosen of a request's open items in its prefill."""

    kept: Tensor  # int64 [n], ascending indices into the candidates
    scores: Tensor | None = None  # float32 [n]: what an eviction goes by
    slots: Tensor | None = None  # int32: of the tokens that are gone


@dataclass(frozen=True, eq=False)
class Target:
    """A request that gives up tokens, with its place in the batch."""

    request: Any
    index: int
    """In the batch's requests."""
    start: int
    """Its first row in the batch."""
    extent: Extent
    change: Change

    @property
    def pruning(self) -> Pruning | None:
        return self.change.compression.pruning

    @property
    def eviction(self) -> Eviction | None:
        return self.change.compression.eviction

    @property
    def candidates(self) -> np.ndarray:
        """Rows, counted from the request's first one, of the tokens to choose from, int64."""
        tokens = [item.start + np.asarray(item.tokens) for item in self.change.open]
        return np.concatenate(tokens) - self.extent.prefix

    @property
    def groups(self) -> np.ndarray:
        """Of each candidate which open item it is of, int64."""
        sizes = [len(item.tokens) for item in self.change.open]
        return np.repeat(np.arange(len(sizes)), sizes)

    @property
    def voices(self) -> int:
        """How many rows there are behind the last candidate."""
        return self.extent.rows - 1 - int(self.candidates[-1])


def split(kept: np.ndarray, change: Change) -> list[np.ndarray]:
    """Ascending indices into all candidates -> into each open item's tokens."""
    ends = np.cumsum([len(item.tokens) for item in change.open])
    parts = np.split(kept, np.searchsorted(kept, ends[:-1]))
    return [
        part - end + len(item.tokens)
        for part, end, item in zip(parts, ends, change.open, strict=True)
    ]


def obstacle(change: Change, extent: Extent) -> str | None:
    """Why nothing can be chosen in this extent; None when it can."""
    if extent.end != change.length:
        return "the prompt does not end in this chunk"
    if extent.prefix > change.open[0].start + change.open[0].tokens[0]:
        return "a part of what is to be pruned is computed already"
    return None


def budget(total: int, share: float, groups: Sequence[int], minimum: int) -> tuple[int, np.ndarray]:
    """How many of ``total`` candidates stay when the share ``share`` does: of all, and of each
    group at least, int64 [groups]. ``groups`` are the sizes of the items."""
    least = np.minimum(np.asarray(groups), minimum)
    keep = total - int(total * (1 - share) + 1e-9)
    return max(keep, int(least.sum())), least
