"""Lengths of paged sequences, as FlashInfer describes them."""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor


def kv_indptr_of(
    page_indptr: Tensor,  # int32 [batch + 1]
    last_page_len: Tensor,  # int32 [batch]
    page_size: int,
) -> Tensor:  # int32 [batch + 1]
    """Where each request's keys begin when all are put one after the other."""
    n_pages = page_indptr.diff()
    lengths = ((n_pages - 1) * page_size + last_page_len).where(n_pages > 0, 0)
    return F.pad(lengths.cumsum(0), (1, 0)).int()


def total_keys(kv_indptr: Tensor, pages: Tensor, page_size: int) -> int:
    """How many keys there are. Synchronises with the device unless each has its own page."""
    return len(pages) if page_size == 1 else int(kv_indptr[-1])
