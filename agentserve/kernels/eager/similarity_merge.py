"""Bipartite soft matching in torch."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor


def similarity_merge(
    x: Tensor, sizes: Tensor, r: int, *, metric: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    unit = F.normalize(metric.float(), dim=-1)
    similarity, nearest = (unit[0::2] @ unit[1::2].T).max(-1)
    merged_from, merged_into = edges(similarity, nearest, r)
    weight = sizes.clone().index_add_(0, merged_into, sizes[merged_from])
    total = x.float() * sizes.unsqueeze(-1)
    total.index_add_(0, merged_into, total[merged_from])
    representative = remaining(len(x), merged_from)
    weight = weight[representative]
    return (total[representative] / weight.unsqueeze(-1)).to(x.dtype), weight, representative


def edges(similarity: Tensor, nearest: Tensor, r: int) -> tuple[Tensor, Tensor]:
    """The ``r`` most similar edges as (from, to), token indices int64 [r].

    ``similarity`` [a] and ``nearest`` [a] are of tokens 0, 2, ...; the latter counts 1, 3, ...
    """
    best = similarity.argsort(descending=True, stable=True)[:r]
    return 2 * best, 2 * nearest[best].long() + 1


def remaining(n: int, merged_from: Tensor) -> Tensor:
    """The tokens of 0..n - 1 that were not merged into others, ascending: int64 [n - r]."""
    gone = torch.zeros(n, dtype=torch.bool, device=merged_from.device)
    gone[merged_from] = True
    # As many stay on every device, so no synchronisation is needed to know the shape.
    return gone.byte().argsort(stable=True)[: n - len(merged_from)]
