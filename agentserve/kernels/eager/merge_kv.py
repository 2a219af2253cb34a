"""Pivot merging of KV rows in torch, layer by layer."""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor


def merge_kv(
    k_buffers: Sequence[Tensor], v_buffers: Sequence[Tensor], dropped: Tensor, kept: Tensor
) -> None:
    for keys, values in zip(k_buffers, v_buffers, strict=True):
        out, stay = (keys[slots].transpose(0, 1).float() for slots in (dropped, kept))
        # A dropped key's own length does not change which kept one is nearest.
        nearest = (out @ F.normalize(stay, dim=-1).transpose(1, 2)).argmax(-1)  # [heads, m]
        for buffer in (keys, values):
            _merge(buffer, dropped, kept, nearest)


def _merge(
    buffer: Tensor,  # [slots, kv_heads, dim]
    dropped: Tensor,  # int64 [m]
    kept: Tensor,  # int64 [n]
    nearest: Tensor,  # int64 [kv_heads, m], into kept
) -> None:
    out, stay = (buffer[slots].transpose(0, 1).float() for slots in (dropped, kept))
    merged = torch.zeros_like(stay).scatter_add_(1, nearest.unsqueeze(-1).expand_as(out), out)
    count = torch.zeros_like(stay[..., 0]).scatter_add_(
        1, nearest, torch.ones_like(nearest, dtype=stay.dtype)
    )
    count = count.unsqueeze(-1)
    result = (stay * (1 + count / 2) + merged / 2) / (1 + count)
    buffer[kept] = result.transpose(0, 1).to(buffer.dtype)
