"""Moving KV rows in torch: per buffer a gather, then a scatter."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor


def compact_kv(
    k_buffers: Sequence[Tensor], v_buffers: Sequence[Tensor], source: Tensor, target: Tensor
) -> None:
    for buffer in (*k_buffers, *v_buffers):
        # Not every device indexes 8-bit floats.
        rows = buffer.view(torch.uint8) if buffer.element_size() == 1 else buffer
        rows[target] = rows[source]
