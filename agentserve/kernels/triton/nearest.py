"""The most similar of many vectors, tile by tile."""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def fold_nearest(best, which, products, squares, number, real):
    """Let a tile of N vectors compete for each of M: ``products`` [M, N] are their inner products,
    ``squares`` [N] the competitors' squared lengths, ``number`` [N] their numbers, and ``real`` [N]
    says which exist. The score is the product over the length. Returns the best score so far and
    whose it is, [M] each; of equal ones the first stays.
    """
    length = tl.maximum(tl.sqrt(squares), 1e-12)
    similar = tl.where(real[None, :], products / length[None, :], float("-inf"))
    here = tl.max(similar, 1)
    first = tl.min(tl.where(similar == here[:, None], number[None, :], 2147483647), 1)
    return tl.maximum(best, here), tl.where(here > best, first, which)
