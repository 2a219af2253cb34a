"""Many buffers for one launch."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import torch
from torch import Tensor


def address_table(buffers: Sequence[Tensor]) -> Tensor:
    """The buffers' addresses, int64, on their device."""
    return _table(tuple(buffer.data_ptr() for buffer in buffers), buffers[0].device)


@lru_cache(maxsize=16)
def _table(addresses: tuple[int, ...], device: torch.device) -> Tensor:
    return torch.tensor(addresses, dtype=torch.int64, device=device)


def aligned_row_bytes(buffers: Sequence[Tensor], alignment: int) -> int | None:
    """The bytes of a slot's row; None if a row does not begin at a multiple of ``alignment``."""
    row_bytes = buffers[0].stride(0) * buffers[0].element_size()
    addresses = [buffer.data_ptr() for buffer in buffers]
    return None if any(each % alignment for each in (row_bytes, *addresses)) else row_bytes
