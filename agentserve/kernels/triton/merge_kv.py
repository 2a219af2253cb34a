"""Pivot merging in Triton: one launch finds each dropped key's kept one, one makes the averages.

Both take tiles of 32 slots of one KV head. The sums go through a product with a matrix of zeros and
ones (is this slot's pivot that one?), so they need no atomics and always add in the same order.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
import triton
import triton.language as tl
from torch import Tensor

from agentserve.kernels.buffers import address_table
from agentserve.kernels.triton.nearest import fold_nearest
from agentserve.kernels.triton.support import element_type, padded, product, require_device

TILE = 32


def merge_kv(
    k_buffers: Sequence[Tensor], v_buffers: Sequence[Tensor], dropped: Tensor, kept: Tensor
) -> None:
    require_device(kept)
    layers, (_, kv_heads, dim) = len(k_buffers), k_buffers[0].shape
    m, n = len(dropped), len(kept)
    nearest = torch.empty((layers, kv_heads, m), dtype=torch.int32, device=kept.device)
    constants = {
        "DIM": dim,
        "PADDED": padded(dim),
        "TILE": TILE,
        "ELEMENT": element_type(k_buffers[0]),
    }
    table = address_table((*k_buffers, *v_buffers))
    # With four warps it spills registers.
    _find[(triton.cdiv(m, TILE), kv_heads, layers)](
        table, dropped, kept, nearest, m, n, **constants, num_warps=8
    )
    _average[(triton.cdiv(n, TILE), kv_heads, 2 * layers)](
        table, dropped, kept, nearest, m, n, layers, **constants
    )


@triton.jit
def _rows(table, buffer, slots, first, count, DIM: tl.constexpr, PADDED: tl.constexpr,
          TILE: tl.constexpr, ELEMENT: tl.constexpr):  # fmt: skip
    """Where a tile of ``slots`` has its values of this program's head, and which of them exist."""
    base = tl.load(table + buffer).to(tl.pointer_type(ELEMENT))
    place = first + tl.arange(0, TILE)
    slot = tl.load(slots + place, mask=place < count, other=0)
    d = tl.arange(0, PADDED)
    at = (slot * tl.num_programs(1) + tl.program_id(1))[:, None] * DIM + d[None, :]
    return base + at, (place < count)[:, None] & (d < DIM)[None, :], place


@triton.jit
def _find(table, dropped, kept, nearest, m, n, DIM: tl.constexpr, PADDED: tl.constexpr,
          TILE: tl.constexpr, ELEMENT: tl.constexpr):  # fmt: skip
    """nearest[layer, head, i] = which of ``kept`` dropped key i is most similar to."""
    layer = tl.program_id(2)
    at, real, place = _rows(
        table, layer, dropped, tl.program_id(0) * TILE, m, DIM, PADDED, TILE, ELEMENT
    )
    own = tl.load(at, mask=real, other=0.0)
    best = tl.full((TILE,), float("-inf"), tl.float32)
    which = tl.zeros((TILE,), tl.int32)
    for first in range(0, n, TILE):
        at, real, number = _rows(table, layer, kept, first, n, DIM, PADDED, TILE, ELEMENT)
        keys = tl.load(at, mask=real, other=0.0)
        products = product(own, tl.trans(keys))
        wide = keys.to(tl.float32)
        squares = tl.sum(wide * wide, 1)
        best, which = fold_nearest(best, which, products, squares, number, number < n)
    pair = layer * tl.num_programs(1) + tl.program_id(1)
    tl.store(nearest + pair * m + place, which, mask=place < m)


@triton.jit
def _average(table, dropped, kept, nearest, m, n, layers, DIM: tl.constexpr, PADDED: tl.constexpr,
             TILE: tl.constexpr, ELEMENT: tl.constexpr):  # fmt: skip
    """Write the averages of a tile of kept slots, in the K or V buffer of one layer."""
    buffer = tl.program_id(2)
    own_at, own_real, number = _rows(
        table, buffer, kept, tl.program_id(0) * TILE, n, DIM, PADDED, TILE, ELEMENT
    )
    total = tl.zeros((TILE, PADDED), tl.float32)
    count = tl.zeros((TILE,), tl.float32)
    pair = (buffer % layers) * tl.num_programs(1) + tl.program_id(1)
    for first in range(0, m, TILE):
        at, real, place = _rows(table, buffer, dropped, first, m, DIM, PADDED, TILE, ELEMENT)
        pivot = tl.load(nearest + pair * m + place, mask=place < m, other=-1)
        joins = tl.where(pivot[None, :] == number[:, None], 1.0, 0.0)
        rows = tl.load(at, mask=real, other=0.0)
        total += product(joins.to(ELEMENT), rows)
        count += tl.sum(joins, 1)
    own = tl.load(own_at, mask=own_real, other=0.0).to(tl.float32)
    count = count[:, None]
    result = (own * (1 + count / 2) + total / 2) / (1 + count)
    tl.store(own_at, result.to(ELEMENT), mask=own_real)
