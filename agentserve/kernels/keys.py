"""The order in which ``select_keep`` prefers scores, as one 64-bit number a score.

    bit  63..32  the score, as an unsigned number that grows with it
    bit  31..0   a hash of (seed, index within the request)

The hash is a bijection of 32-bit numbers, so no two scores of a request have the same key. Torch
has no unsigned 64-bit arithmetic on all devices: the keys here are signed, with bit 63 inverted.
"""

from __future__ import annotations

import torch
from torch import Tensor

LOW_32 = 0xFFFFFFFF
STEP = 0x9E3779B9
"""Spreads neighbouring seeds: 2^32 divided by the golden ratio, odd."""
FIRST_FACTOR, SECOND_FACTOR = 0x85EBCA6B, 0xC2B2AE35
"""Of MurmurHash3's 32-bit finaliser, which is a bijection."""


def tie_break(index: Tensor, seed: int) -> Tensor:
    """The hash of (seed, index): int64 in 0..2^32 - 1, the same shape as ``index`` (int64)."""
    x = (index + offset(seed)) & LOW_32
    x = (x ^ (x >> 16)) * FIRST_FACTOR & LOW_32
    x = (x ^ (x >> 13)) * SECOND_FACTOR & LOW_32
    return x ^ (x >> 16)


def offset(seed: int) -> int:
    """Where the numbers that are hashed begin, for a seed."""
    return seed * STEP & LOW_32


def sort_keys(
    scores: Tensor,  # float32 [n]
    indptr: Tensor,  # int32 [batch + 1]
    seed: int,
) -> tuple[Tensor, Tensor, Tensor]:  # int64 [n] each
    """The keys, and the request and the index within it of each score."""
    request, index = places(indptr, len(scores))
    bits = (scores + 0.0).view(torch.int32).long()  # adding 0 makes -0 and 0 one
    ordered = torch.where(bits < 0, bits ^ 0x7FFFFFFF, bits)
    ordered = torch.where(scores.isnan(), -(2**31), ordered)
    return (ordered << 32) | tie_break(index, seed), request, index


def places(indptr: Tensor, n: int) -> tuple[Tensor, Tensor]:
    """The request and the index within it, int64 [n], of each of the ``n`` scores."""
    flat = torch.arange(n, device=indptr.device)
    request = torch.searchsorted(indptr[1:].long(), flat, right=True)
    return request, flat - indptr.long()[request]
