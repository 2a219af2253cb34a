"""Moving KV rows in Triton: one launch for all buffers.

A program owns some columns of one buffer and takes the moves in order, ROWS at a time: reads them
all, then writes them all. Programs share no byte, and the contract of ``ops.compact_kv`` makes it
safe for one batch of moves to follow another.
"""

from __future__ import annotations

from collections.abc import Sequence

import triton
import triton.language as tl
from torch import Tensor

from agentserve.kernels.buffers import address_table, aligned_row_bytes
from agentserve.kernels.dispatch import BackendUnavailable
from agentserve.kernels.triton.support import require_device

ROWS, WORDS = 64, 32
WORD_BYTES, ALIGNMENT = 4, 16


def compact_kv(
    k_buffers: Sequence[Tensor], v_buffers: Sequence[Tensor], source: Tensor, target: Tensor
) -> None:
    require_device(source)
    buffers = (*k_buffers, *v_buffers)
    row_bytes = aligned_row_bytes(buffers, ALIGNMENT)
    if row_bytes is None:
        raise BackendUnavailable(f"rows do not all begin at multiples of {ALIGNMENT} bytes")
    row_words = row_bytes // WORD_BYTES
    grid = (triton.cdiv(row_words, WORDS), len(buffers))
    _move[grid](
        address_table(buffers), source, target, len(source), ROW_WORDS=row_words,
        ROWS=ROWS, WORDS=WORDS,
    )  # fmt: skip


@triton.jit
def _move(
    table, source, target, n, ROW_WORDS: tl.constexpr, ROWS: tl.constexpr, WORDS: tl.constexpr
):
    buffer = tl.load(table + tl.program_id(1)).to(tl.pointer_type(tl.int32))
    buffer = tl.multiple_of(buffer, 16)
    word = tl.program_id(0) * WORDS + tl.arange(0, WORDS)
    for first in range(0, n, ROWS):
        move = first + tl.arange(0, ROWS)
        real = (move < n)[:, None] & (word < ROW_WORDS)[None, :]
        from_slot = tl.load(source + move, mask=move < n, other=0)
        to_slot = tl.load(target + move, mask=move < n, other=0)
        rows = tl.load(buffer + from_slot[:, None] * ROW_WORDS + word[None, :], mask=real)
        tl.debug_barrier()  # all reads come before any write
        tl.store(buffer + to_slot[:, None] * ROW_WORDS + word[None, :], rows, mask=real)
