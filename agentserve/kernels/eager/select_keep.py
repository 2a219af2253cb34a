"""Choosing what to keep, in torch: stable sorts by one 64-bit key."""

from __future__ import annotations

import torch
from torch import Tensor

from agentserve.kernels.keys import sort_keys


def select_keep(
    scores: Tensor,
    indptr: Tensor,
    keep: Tensor,
    *,
    groups: Tensor | None,
    group_min: Tensor | None,
    seed: int,
) -> tuple[Tensor, Tensor]:
    keys, request, index = sort_keys(scores, indptr, seed)
    best_first = keys.argsort(descending=True)
    forced = torch.zeros_like(scores, dtype=torch.bool)
    if groups is not None and group_min is not None:
        n_groups = len(group_min)
        # Scores without a group share the number n_groups, of minimum 0.
        number = torch.where(groups < 0, n_groups, groups)
        least = torch.cat((group_min, group_min.new_zeros(1)))
        rank = _rank(best_first, request * (n_groups + 1) + number)
        forced = rank < least[number]
    best_first = best_first[forced[best_first].logical_not().argsort(stable=True)]
    budget = torch.maximum(keep, keep.new_zeros(len(keep)).index_add_(0, request, forced.int()))
    chosen = _rank(best_first, request) < budget[request]
    return kept_of(chosen, request, index, len(keep))


def _rank(order: Tensor, label: Tensor) -> Tensor:
    """Each element's rank among those of its label, if ``order`` lists all elements best first."""
    by_label = order[label[order].argsort(stable=True)]
    sorted_label = label[by_label]
    first = torch.searchsorted(sorted_label, sorted_label)
    rank = torch.empty_like(order)
    rank[by_label] = torch.arange(len(order), device=order.device) - first
    return rank


def kept_of(
    chosen: Tensor,  # bool [n]
    request: Tensor,  # int64 [n]
    index: Tensor,  # int64 [n]
    batch: int,
) -> tuple[Tensor, Tensor]:
    """The chosen indices, request after request, and where each request's begin."""
    per_request = request.new_zeros(batch).index_add_(0, request, chosen.long())
    indptr = torch.nn.functional.pad(per_request.cumsum(0), (1, 0)).int()
    return index[chosen], indptr
