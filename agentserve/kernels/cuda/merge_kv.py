"""Pivot merging in CUDA; the kernels are in csrc/merge_kv.cu."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from agentserve.kernels.buffers import address_table, aligned_row_bytes
from agentserve.kernels.cuda.support import ALIGNMENT, require
from agentserve.kernels.dispatch import BackendUnavailable

MAX_DIM, DIM_STEP = 256, 8


def merge_kv(
    k_buffers: Sequence[Tensor], v_buffers: Sequence[Tensor], dropped: Tensor, kept: Tensor
) -> None:
    module = require(kept)
    buffers = (*k_buffers, *v_buffers)
    _, kv_heads, dim = k_buffers[0].shape
    if dim % DIM_STEP or dim > MAX_DIM:
        raise BackendUnavailable(
            f"the CUDA kernel takes heads of up to {MAX_DIM} columns, a multiple of {DIM_STEP}"
        )
    if aligned_row_bytes(buffers, ALIGNMENT) is None:
        raise BackendUnavailable(f"rows do not all begin at multiples of {ALIGNMENT} bytes")
    nearest = torch.empty(
        (len(k_buffers), kv_heads, len(dropped)), dtype=torch.int32, device=kept.device
    )
    module.merge_kv(
        k_buffers[0], address_table(buffers), dropped.contiguous(), kept.contiguous(), nearest
    )
