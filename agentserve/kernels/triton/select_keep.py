"""Choosing what to keep, in Triton: the k-th best key is found bit by bit, nothing is sorted.

The keys are those of ``keys``, computed where they are read. No two of a request are equal, so the
k-th best one tells the chosen from the rest exactly.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from agentserve.kernels import keys
from agentserve.kernels.eager.select_keep import kept_of
from agentserve.kernels.triton.support import require_device

MAX_BLOCK = 4096
FIRST_FACTOR = tl.constexpr(keys.FIRST_FACTOR)
SECOND_FACTOR = tl.constexpr(keys.SECOND_FACTOR)


def select_keep(
    scores: Tensor,
    indptr: Tensor,
    keep: Tensor,
    *,
    groups: Tensor | None,
    group_min: Tensor | None,
    seed: int,
) -> tuple[Tensor, Tensor]:
    require_device(scores)
    chosen = torch.zeros_like(scores, dtype=torch.int8)
    n, batch = len(scores), len(keep)
    constants = {
        "offset": keys.offset(seed) - (1 << 31),  # an int32 argument, whatever the seed
        "BLOCK": min(triton.next_power_of_2(max(n, 1)), MAX_BLOCK),
    }
    if groups is not None and group_min is not None and len(group_min):
        grid = (batch, len(group_min))
        _choose[grid](scores, indptr, group_min, groups, chosen, OF_GROUP=True, **constants)
    _choose[(batch, 1)](scores, indptr, keep, chosen, chosen, OF_GROUP=False, **constants)
    return kept_of(chosen.bool(), *keys.places(indptr, n), batch)


@triton.jit
def _key(score, index, offset):
    """The order of scores as int64: see ``keys``."""
    bits = (score + 0.0).to(tl.int32, bitcast=True)
    ordered = tl.where(bits < 0, bits ^ 0x7FFFFFFF, bits)
    ordered = tl.where(score != score, -2147483648, ordered)
    x = index.to(tl.uint32) + offset.to(tl.uint32) + 0x80000000
    x = (x ^ (x >> 16)) * FIRST_FACTOR
    x = (x ^ (x >> 13)) * SECOND_FACTOR
    x = x ^ (x >> 16)
    return (ordered.to(tl.int64) << 32) | x.to(tl.int64)


@triton.jit
def _load(
    scores, label, begin, end, first, group, offset, BLOCK: tl.constexpr, OF_GROUP: tl.constexpr
):
    """Keys of a block, and which of them compete."""
    at = first + tl.arange(0, BLOCK)
    real = at < end
    key = _key(tl.load(scores + at, mask=real, other=0.0), at - begin, offset)
    own = tl.load(label + at, mask=real, other=-1)
    return key, real & (own == group if OF_GROUP else own == 0), at


@triton.jit(do_not_specialize=["offset"])
def _choose(
    scores, indptr, want, label, chosen, offset, BLOCK: tl.constexpr, OF_GROUP: tl.constexpr
):
    """Mark the best ``want[group]`` of a request's group, or fill the request up to
    ``want[request]`` with the best of what is not yet chosen (``label`` is ``chosen`` then)."""
    request, group = tl.program_id(0), tl.program_id(1)
    begin, end = tl.load(indptr + request), tl.load(indptr + request + 1)
    competing = 0
    for first in range(begin, end, BLOCK):
        _, member, _ = _load(scores, label, begin, end, first, group, offset, BLOCK, OF_GROUP)
        competing += tl.sum(member.to(tl.int32))
    want_here = tl.load(want + (group if OF_GROUP else request))
    k = tl.minimum(competing, want_here if OF_GROUP else want_here - (end - begin - competing))
    if k > 0:
        threshold = tl.full((), -(2**63), tl.int64)
        for step in range(64):
            # The largest number that k keys reach: try its bits from the highest. Two's complement
            # makes the highest one the same as the others.
            candidate = threshold + (tl.full((), 1, tl.int64) << (63 - step))
            reach = 0
            for first in range(begin, end, BLOCK):
                key, member, _ = _load(
                    scores, label, begin, end, first, group, offset, BLOCK, OF_GROUP
                )
                reach += tl.sum((member & (key >= candidate)).to(tl.int32))
            threshold = tl.where(reach >= k, candidate, threshold)
        for first in range(begin, end, BLOCK):
            key, member, at = _load(
                scores, label, begin, end, first, group, offset, BLOCK, OF_GROUP
            )
            tl.store(chosen + at, 1, mask=member & (key >= threshold))
