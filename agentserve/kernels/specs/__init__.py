"""One spec per operation."""

from agentserve.kernels.specs import (
    compact_kv,
    merge_kv,
    received_attention,
    select_keep,
    similarity_merge,
)

ALL = (
    received_attention.SPEC,
    select_keep.SPEC,
    compact_kv.SPEC,
    merge_kv.SPEC,
    similarity_merge.SPEC,
)
