"""Choosing what to keep in CUDA; the kernels are in csrc/select_keep.cu."""

from __future__ import annotations

import torch
from torch import Tensor

from agentserve.kernels import keys
from agentserve.kernels.cuda.support import require
from agentserve.kernels.eager.select_keep import kept_of


def select_keep(
    scores: Tensor,
    indptr: Tensor,
    keep: Tensor,
    *,
    groups: Tensor | None,
    group_min: Tensor | None,
    seed: int,
) -> tuple[Tensor, Tensor]:
    module = require(scores)
    scores, indptr, keep = scores.contiguous(), indptr.contiguous(), keep.contiguous()
    chosen = torch.zeros_like(scores, dtype=torch.int8)
    batch, offset = len(keep), keys.offset(seed)
    if groups is not None and group_min is not None and batch * len(group_min) > 0:
        module.mark_best_of_groups(
            scores, indptr, group_min.contiguous(), groups.contiguous(), chosen, offset
        )
    if batch > 0:
        module.fill_up(scores, indptr, keep, chosen, offset)
    return kept_of(chosen.bool(), *keys.places(indptr, len(scores)), batch)
