"""Moving KV rows in CUDA; the kernel is in csrc/compact_kv.cu."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from agentserve.kernels.buffers import address_table, aligned_row_bytes
from agentserve.kernels.cuda.support import ALIGNMENT, require
from agentserve.kernels.dispatch import BackendUnavailable


def compact_kv(
    k_buffers: Sequence[Tensor], v_buffers: Sequence[Tensor], source: Tensor, target: Tensor
) -> None:
    module = require(source)
    buffers = (*k_buffers, *v_buffers)
    row_bytes = aligned_row_bytes(buffers, ALIGNMENT)
    if row_bytes is None:
        raise BackendUnavailable(f"rows do not all begin at multiples of {ALIGNMENT} bytes")
    table = address_table(buffers)
    module.compact_kv(table, source.contiguous(), target.contiguous(), row_bytes // ALIGNMENT)
