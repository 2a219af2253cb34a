"""Received attention in CUDA; the kernels are in csrc/received_attention.cu."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from agentserve.kernels.cuda.support import ALIGNMENT, require
from agentserve.kernels.dispatch import BackendUnavailable
from agentserve.kernels.paging import kv_indptr_of, total_keys

KEYS, SPLITS = 64, 16
MAX_BLOCKS = 256
DIMS = (64, 128)


def received_attention(
    q: Tensor,
    k_cache: Tensor,
    row_indptr: Tensor,
    row_positions: Tensor,
    page_indptr: Tensor,
    pages: Tensor,
    last_page_len: Tensor,
    *,
    scale: float,
    heads: str,
) -> Tensor:
    module = require(q)
    (rows, q_heads, _), page_size = q.shape, k_cache.shape[1]
    q = q.contiguous()
    _require_layout(q, k_cache)
    kv_indptr = kv_indptr_of(page_indptr, last_page_len, page_size)
    keys = total_keys(kv_indptr, pages, page_size)
    scores = q.new_zeros(keys, dtype=torch.float32)
    if rows == 0 or keys == 0:
        return scores
    parts = q.new_full((SPLITS, rows, q_heads), -torch.inf, dtype=torch.float32)
    indices = (row_indptr, row_positions, page_indptr, pages, last_page_len)
    log2_e = 1 / math.log(2)
    common = (q, k_cache, *(each.contiguous() for each in indices), scale * log2_e)
    module.attention_normalisers(*common, parts)
    # In base 2, like the logits; log2(sum of 2^x) by the natural one.
    normaliser = (parts / log2_e).logsumexp(0) * log2_e
    weight = 1 / q_heads if heads == "mean" else 1.0
    blocks = min(-(-keys // KEYS), MAX_BLOCKS)
    module.attention_columns(*common, kv_indptr, normaliser, weight, blocks, scores)
    return scores


def _require_layout(q: Tensor, k_cache: Tensor) -> None:
    dim = q.shape[-1]
    if dim not in DIMS:
        raise BackendUnavailable(f"the CUDA kernel takes heads of {DIMS} columns, not {dim}")
    vector = ALIGNMENT // q.element_size()
    aligned = all(each.data_ptr() % ALIGNMENT == 0 for each in (q, k_cache))
    strides = all(stride % vector == 0 for stride in k_cache.stride()[:3])
    if k_cache.stride(3) != 1 or not (aligned and strides):
        raise BackendUnavailable(f"the CUDA kernel takes keys aligned to {ALIGNMENT} bytes")
