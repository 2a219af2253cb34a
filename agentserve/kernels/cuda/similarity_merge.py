"""Bipartite soft matching in CUDA; the kernels are in csrc/similarity_merge.cu."""

from __future__ import annotations

import torch
from torch import Tensor

from agentserve.kernels.cuda.support import ALIGNMENT, require
from agentserve.kernels.dispatch import BackendUnavailable
from agentserve.kernels.eager.similarity_merge import edges, remaining

DIM_STEP = 8


def similarity_merge(
    x: Tensor, sizes: Tensor, r: int, *, metric: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    module = require(x)
    x, sizes, metric = x.contiguous(), sizes.contiguous(), metric.contiguous()
    n, d = x.shape
    if metric.shape[1] % DIM_STEP or metric.data_ptr() % ALIGNMENT:
        raise BackendUnavailable(f"the CUDA kernel takes metrics of a multiple of {DIM_STEP}")
    similarity = x.new_empty((n + 1) // 2, dtype=torch.float32)
    nearest = torch.empty_like(similarity, dtype=torch.int32)
    module.similarity_edges(metric, similarity, nearest)
    merged_from, merged_into = edges(similarity, nearest, r)
    representative = remaining(n, merged_from)
    merged, weight = x.new_empty(n - r, d), sizes.new_empty(n - r)
    module.similarity_average(x, sizes, merged_from, merged_into, representative, merged, weight)
    return merged, weight, representative
