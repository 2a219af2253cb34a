"""Received attention in Triton: two passes over the keys, in tiles of rows x keys.

Pass 1 finds each row's softmax normaliser, with the keys of a request in SPLITS parts so that few
rows fill the device. Pass 2 goes over the keys again and adds up each key's column. A tile's rows
are (row, head of the group) pairs of one KV head: its keys are read once for all of them.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from agentserve.kernels.paging import kv_indptr_of, total_keys
from agentserve.kernels.triton.support import padded, product, require_device

ROWS, KEYS, SPLITS = 16, 64, 16
MAX_KEY_PROGRAMS = 256
LOG2_E = 1.4426950408889634


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
    require_device(q)
    q = q.contiguous()
    (rows, q_heads, dim), (_, page_size, kv_heads, _) = q.shape, k_cache.shape
    batch = len(last_page_len)
    kv_indptr = kv_indptr_of(page_indptr, last_page_len, page_size)
    keys = total_keys(kv_indptr, pages, page_size)
    scores = q.new_zeros(keys, dtype=torch.float32)
    if rows == 0 or keys == 0:
        return scores
    parts = q.new_full((SPLITS, rows, q_heads), -torch.inf, dtype=torch.float32)
    arguments = (q, k_cache, row_indptr, row_positions, page_indptr, pages, kv_indptr)
    constants = {
        "scale_log2": scale * LOG2_E,
        "stride_page": k_cache.stride(0),
        "stride_slot": k_cache.stride(1),
        "stride_head": k_cache.stride(2),
        "PAGE_SIZE": page_size,
        "KV_HEADS": kv_heads,
        "GROUP": q_heads // kv_heads,
        "DIM": dim,
        "PADDED": padded(dim),
        "ROWS": ROWS,
        "KEYS": KEYS,
    }
    _normalisers[(SPLITS, kv_heads, batch)](*arguments, parts, rows, SPLITS=SPLITS, **constants)
    # In base 2, like the logits; log2(sum of 2^x) by the natural one.
    normaliser = (parts / LOG2_E).logsumexp(0) * LOG2_E
    programs = min(triton.cdiv(keys, KEYS), MAX_KEY_PROGRAMS)
    _columns[(programs, batch)](
        *arguments, normaliser, scores, 1 / q_heads if heads == "mean" else 1.0, **constants
    )
    return scores


@triton.jit
def _load_rows(
    q, row_positions, first, count, start, head,
    KV_HEADS: tl.constexpr, GROUP: tl.constexpr, DIM: tl.constexpr, PADDED: tl.constexpr,
    ROWS: tl.constexpr,
):  # fmt: skip
    """Tile rows start.. of a request's count (row, head of the group) pairs: their q, the last key
    each sees (-1 past the end), and where their entries in [rows, q_heads] are."""
    pair = start + tl.arange(0, ROWS)
    real = pair < count
    row = first + pair // GROUP
    entry = row.to(tl.int64) * (KV_HEADS * GROUP) + head * GROUP + pair % GROUP
    d = tl.arange(0, PADDED)
    tile = tl.load(
        q + entry[:, None] * DIM + d[None, :], mask=real[:, None] & (d < DIM)[None, :], other=0.0
    )
    return tile, tl.load(row_positions + row, mask=real, other=-1), entry, real


@triton.jit
def _logits(
    tile, last_seen, k_head, own_pages, first, length, scale_log2, stride_page, stride_slot,
    PAGE_SIZE: tl.constexpr, DIM: tl.constexpr, PADDED: tl.constexpr, KEYS: tl.constexpr,
):  # fmt: skip
    """Logits in base 2 of a tile of rows and keys first..; -inf where a row does not see a key."""
    key = first + tl.arange(0, KEYS)
    real = key < length
    page = tl.load(own_pages + key // PAGE_SIZE, mask=real, other=0).to(tl.int64)
    d = tl.arange(0, PADDED)
    at = page * stride_page + (key % PAGE_SIZE) * stride_slot
    keys = tl.load(
        k_head + at[None, :] + d[:, None], mask=real[None, :] & (d < DIM)[:, None], other=0.0
    )
    logits = product(tile, keys) * scale_log2
    seen = real[None, :] & (key[None, :] <= last_seen[:, None])
    return tl.where(seen, logits, float("-inf"))


@triton.jit
def _normalisers(
    q, k_cache, row_indptr, row_positions, page_indptr, pages, kv_indptr, parts, n_rows,
    scale_log2, stride_page, stride_slot, stride_head,
    PAGE_SIZE: tl.constexpr, KV_HEADS: tl.constexpr, GROUP: tl.constexpr, DIM: tl.constexpr,
    PADDED: tl.constexpr, ROWS: tl.constexpr, KEYS: tl.constexpr, SPLITS: tl.constexpr,
):  # fmt: skip
    """parts[split, row, head] = log2 of the sum of 2^logit over one split of the keys."""
    split, head, request = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    length = tl.load(kv_indptr + request + 1) - tl.load(kv_indptr + request)
    per_split = tl.cdiv(tl.cdiv(length, SPLITS), KEYS) * KEYS
    begin = split * per_split
    end = tl.minimum(begin + per_split, length)
    own_pages = pages + tl.load(page_indptr + request)
    first_row = tl.load(row_indptr + request)
    count = (tl.load(row_indptr + request + 1) - first_row) * GROUP
    k_head = k_cache + head * stride_head
    for start in range(0, count, ROWS):
        tile, last_seen, entry, real = _load_rows(
            q, row_positions, first_row, count, start, head, KV_HEADS, GROUP, DIM, PADDED, ROWS
        )
        top = tl.full((ROWS,), float("-inf"), tl.float32)
        total = tl.zeros((ROWS,), tl.float32)
        for first in range(begin, tl.minimum(end, tl.max(last_seen) + 1), KEYS):
            logits = _logits(
                tile, last_seen, k_head, own_pages, first, length, scale_log2, stride_page,
                stride_slot, PAGE_SIZE, DIM, PADDED, KEYS,
            )  # fmt: skip
            new_top = tl.maximum(top, tl.max(logits, 1))
            base = tl.where(new_top == float("-inf"), 0.0, new_top)  # inf - inf is not a number
            total = total * tl.exp2(top - base) + tl.sum(tl.exp2(logits - base[:, None]), 1)
            top = new_top
        result = top + tl.log2(tl.where(total > 0, total, 1.0))
        heads = KV_HEADS * GROUP
        tl.store(parts + split.to(tl.int64) * n_rows * heads + entry, result, mask=real)


@triton.jit
def _columns(
    q, k_cache, row_indptr, row_positions, page_indptr, pages, kv_indptr, normaliser, scores,
    head_weight, scale_log2, stride_page, stride_slot, stride_head,
    PAGE_SIZE: tl.constexpr, KV_HEADS: tl.constexpr, GROUP: tl.constexpr, DIM: tl.constexpr,
    PADDED: tl.constexpr, ROWS: tl.constexpr, KEYS: tl.constexpr,
):  # fmt: skip
    """scores[key] = head_weight / rows * the sum of 2^(logit - normaliser) over rows and heads."""
    request = tl.program_id(1)
    offset = tl.load(kv_indptr + request)
    length = tl.load(kv_indptr + request + 1) - offset
    own_pages = pages + tl.load(page_indptr + request)
    first_row = tl.load(row_indptr + request)
    n_rows = tl.load(row_indptr + request + 1) - first_row
    count = n_rows * GROUP
    weight = head_weight / tl.maximum(n_rows, 1)
    for first in range(tl.program_id(0) * KEYS, length, tl.num_programs(0) * KEYS):
        total = tl.zeros((KEYS,), tl.float32)
        for head in range(0, KV_HEADS):
            k_head = k_cache + head * stride_head
            for start in range(0, count, ROWS):
                tile, last_seen, entry, real = _load_rows(
                    q, row_positions, first_row, count, start, head, KV_HEADS, GROUP, DIM, PADDED,
                    ROWS,
                )  # fmt: skip
                logits = _logits(
                    tile, last_seen, k_head, own_pages, first, length, scale_log2, stride_page,
                    stride_slot, PAGE_SIZE, DIM, PADDED, KEYS,
                )  # fmt: skip
                base = tl.load(normaliser + entry, mask=real, other=0.0)
                total += tl.sum(tl.exp2(logits - base[:, None]), 0)
        key = first + tl.arange(0, KEYS)
        tl.store(scores + offset + key, total * weight, mask=key < length)
