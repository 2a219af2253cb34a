"""Bipartite soft matching in Triton: a launch for the edges, one for the weighted means."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from agentserve.kernels.eager.similarity_merge import edges, remaining
from agentserve.kernels.triton.nearest import fold_nearest
from agentserve.kernels.triton.support import padded, product, require_device

TILE, COLUMNS = 32, 32


def similarity_merge(
    x: Tensor, sizes: Tensor, r: int, *, metric: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    require_device(x)
    x, metric = x.contiguous(), metric.contiguous()
    (n, d), e = x.shape, metric.shape[1]
    lookers = (n + 1) // 2
    similarity = x.new_empty(lookers, dtype=torch.float32)
    nearest = torch.empty_like(similarity, dtype=torch.int32)
    _find[(triton.cdiv(lookers, TILE),)](
        metric, similarity, nearest, n, DIM=e, TILE=TILE, COLUMNS=min(COLUMNS, padded(e))
    )
    merged_from, merged_into = edges(similarity, nearest, r)
    representative = remaining(n, merged_from)
    merged, weight = x.new_empty(n - r, d), sizes.new_empty(n - r)
    _average[(triton.cdiv(n - r, TILE), triton.cdiv(d, COLUMNS))](
        x, sizes, merged_from, merged_into, representative, merged, weight, n - r, r,
        DIM=d, TILE=TILE, COLUMNS=COLUMNS,
    )  # fmt: skip
    return merged, weight, representative


@triton.jit
def _find(
    metric, similarity, nearest, n, DIM: tl.constexpr, TILE: tl.constexpr, COLUMNS: tl.constexpr
):
    """For a tile of tokens 0, 2, 4, ... the most similar of tokens 1, 3, 5, ... and its cosine."""
    looker = tl.program_id(0) * TILE + tl.arange(0, TILE)
    best = tl.full((TILE,), float("-inf"), tl.float32)
    which = tl.zeros((TILE,), tl.int32)
    own_squares = tl.zeros((TILE,), tl.float32)
    for first in range(0, n // 2, TILE):
        other = first + tl.arange(0, TILE)
        products = tl.zeros((TILE, TILE), tl.float32)
        squares = tl.zeros((TILE,), tl.float32)
        own_squares = tl.zeros((TILE,), tl.float32)
        for column in range(0, DIM, COLUMNS):
            d = column + tl.arange(0, COLUMNS)
            own = _tokens(metric, 2 * looker, n, d, DIM)
            theirs = _tokens(metric, 2 * other + 1, n, d, DIM)
            products += product(own, tl.trans(theirs))
            own_wide, wide = own.to(tl.float32), theirs.to(tl.float32)
            own_squares += tl.sum(own_wide * own_wide, 1)
            squares += tl.sum(wide * wide, 1)
        best, which = fold_nearest(best, which, products, squares, other, other < n // 2)
    real = 2 * looker < n
    tl.store(similarity + looker, best / tl.maximum(tl.sqrt(own_squares), 1e-12), mask=real)
    tl.store(nearest + looker, which, mask=real)


@triton.jit
def _tokens(x, token, n, d, DIM: tl.constexpr):
    """Columns ``d`` of some tokens; 0 where there are none."""
    real = (token < n)[:, None] & (d < DIM)[None, :]
    return tl.load(x + token.to(tl.int64)[:, None] * DIM + d[None, :], mask=real, other=0.0)


@triton.jit
def _average(
    x, sizes, merged_from, merged_into, representative, merged, weight, left, r,
    DIM: tl.constexpr, TILE: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    """Some columns of a tile of the ``left`` tokens that remain, and their sizes."""
    place = tl.program_id(0) * TILE + tl.arange(0, TILE)
    d = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    real = place < left
    token = tl.load(representative + place, mask=real, other=0)
    size = tl.load(sizes + token, mask=real, other=1.0)
    inside = real[:, None] & (d < DIM)[None, :]
    total = tl.load(x + token[:, None] * DIM + d[None, :], mask=inside, other=0.0)
    total = total.to(tl.float32) * size[:, None]
    for first in range(0, r, TILE):
        edge = first + tl.arange(0, TILE)
        source = tl.load(merged_from + edge, mask=edge < r, other=0)
        into = tl.load(merged_into + edge, mask=edge < r, other=-1)
        source_size = tl.load(sizes + source, mask=edge < r, other=0.0)
        joins = (into[None, :] == token[:, None]).to(tl.float32)
        inside = (edge < r)[:, None] & (d < DIM)[None, :]
        rows = tl.load(x + source[:, None] * DIM + d[None, :], mask=inside, other=0.0)
        total += product(joins, rows.to(tl.float32) * source_size[:, None])
        size += tl.sum(joins * source_size[None, :], 1)
    inside = real[:, None] & (d < DIM)[None, :]
    result = (total / size[:, None]).to(merged.dtype.element_ty)
    tl.store(merged + place.to(tl.int64)[:, None] * DIM + d[None, :], result, mask=inside)
    tl.store(weight + place, size, mask=real & (tl.program_id(1) == 0))
