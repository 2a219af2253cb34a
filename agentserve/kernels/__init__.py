"""Operations on visual tokens and their KV cache: torch tensors in, torch tensors out.

Each has one spec (``specs``: a plain reference, seeded inputs, tolerances) and up to three
backends: ``eager`` (torch, any device), ``triton`` and ``cuda``. This package imports nothing else
of agentserve, and triton and flashinfer only where they are used.
"""

from agentserve.kernels.dispatch import Backend, BackendUnavailable, Count, counts
from agentserve.kernels.ops import (
    compact_kv,
    merge_kv,
    received_attention,
    select_keep,
    similarity_merge,
)

__all__ = [
    "Backend",
    "BackendUnavailable",
    "Count",
    "compact_kv",
    "counts",
    "merge_kv",
    "received_attention",
    "select_keep",
    "similarity_merge",
]
