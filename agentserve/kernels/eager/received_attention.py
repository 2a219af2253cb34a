"""Received attention in torch: per request one product, rows x heads x keys."""

from __future__ import annotations

import torch
from torch import Tensor


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
    _, page_size, kv_heads, dim = k_cache.shape
    bounds = zip(row_indptr.tolist(), page_indptr.tolist(), strict=True)
    scores = [q.new_empty(0, dtype=torch.float32)]
    (first_row, first_page), *ends = bounds
    for (end_row, end_page), last_len in zip(ends, last_page_len.tolist(), strict=True):
        keys = k_cache[pages[first_page:end_page].long()].reshape(-1, kv_heads, dim)
        if end_page > first_page:
            keys = keys[: len(keys) - page_size + last_len]
        rows, positions = q[first_row:end_row], row_positions[first_row:end_row]
        scores.append(_of_request(rows, keys, positions, scale, heads))
        first_row, first_page = end_row, end_page
    return torch.cat(scores)


def _of_request(
    q: Tensor,  # [rows, q_heads, dim]
    k: Tensor,  # [keys, kv_heads, dim]
    positions: Tensor,  # int32 [rows]
    scale: float,
    heads: str,
) -> Tensor:  # float32 [keys]
    (rows, q_heads, dim), (keys, kv_heads, _) = q.shape, k.shape
    if rows == 0:
        return q.new_zeros(keys, dtype=torch.float32)
    grouped = q.float().view(rows, kv_heads, q_heads // kv_heads, dim).permute(1, 2, 0, 3)
    logits = grouped @ k.float().permute(1, 2, 0).unsqueeze(1)  # [kv_heads, group, rows, keys]
    hidden = torch.arange(keys, device=q.device) > positions.unsqueeze(1)
    weights = (logits * scale).masked_fill_(hidden, -torch.inf).softmax(-1)
    total = weights.sum((0, 1, 2)) / rows
    return total / q_heads if heads == "mean" else total
