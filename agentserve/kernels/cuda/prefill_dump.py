"""Received attention of the last rows as a by-product of prefill, without another pass over K.

``received_attention`` reads a layer's keys twice more. Where the layer's own attention is computed
by FlashInfer, that is spared: a variant of its prefill kernel writes the raw logits of the last
rows as it goes, the kernel returns each row's log-sum-exp, and the scores follow from the two:

    wrapper = prefill_wrapper(workspace, torch.bfloat16, 128)
    wrapper.plan(..., causal=True)
    dump = torch.empty(batch, rows, q_heads, max_kv_len, dtype=torch.float32, device="cuda")
    out, lse = wrapper.run(q, (k, v), dump, scale, rows, max_kv_len, return_lse=True)
    scores = scores_from_dump(dump, lse, qo_lens, kv_lens, scale=scale)

Only FlashInfer's "fa2" kernels can do it: those for Hopper do not tell a variant the request. The
dump costs 4 * batch * rows * q_heads * max_kv_len bytes.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor

_VARIANT = Path(__file__).resolve().parents[1] / "csrc" / "dump_logits.cuh"
_OPTIONS = {"paged_kv_stride_mode": "equal"}  # K and V alike: half the kernels to compile


def jit_args(dtype: torch.dtype, head_dim: int) -> list[Any]:
    """What FlashInfer needs to make the kernels, for K, V, q and output of one dtype."""
    name = f"agentserve_dump_logits_{str(dtype).removeprefix('torch.')}_{head_dim}"
    dtypes = (dtype, dtype, dtype, torch.int32)
    tensors, scalars = ["dump"], ["sm_scale", "dump_rows", "dump_keys"]
    return [
        *(name, *dtypes, head_dim, head_dim),
        *(tensors, ["float"], scalars, ["double", "int64_t", "int64_t"]),
        *("DumpLogits", _VARIANT.read_text()),
    ]


def jit_spec(dtype: torch.dtype, head_dim: int) -> Any:
    """FlashInfer's build description of the kernels; builds nothing."""
    from flashinfer.jit.attention import gen_customize_batch_prefill_module

    return gen_customize_batch_prefill_module("fa2", *jit_args(dtype, head_dim), **_OPTIONS)


def prefill_wrapper(workspace: Tensor, dtype: torch.dtype, head_dim: int) -> Any:
    """FlashInfer's ``BatchPrefillWithPagedKVCacheWrapper`` (NHD) with these kernels.

    Builds them at the first call (minutes). ``workspace``: uint8, 128 MB, on the device.
    """
    from flashinfer import BatchPrefillWithPagedKVCacheWrapper

    return BatchPrefillWithPagedKVCacheWrapper(
        workspace, "NHD", backend="fa2", jit_args=jit_args(dtype, head_dim), jit_kwargs=_OPTIONS
    )


def scores_from_dump(
    dump: Tensor,  # float32 [batch, rows, q_heads, max_kv_len]
    lse: Tensor,  # float32 [sum of qo_lens, q_heads], base 2, of scaled logits
    qo_lens: Tensor,  # int32 [batch]
    kv_lens: Tensor,  # int32 [batch]
    *,
    scale: float,
    heads: Literal["mean", "sum"] = "mean",
) -> Tensor:  # float32 [sum of kv_lens]
    """What ``received_attention`` gives for each request's last ``rows`` rows (all, if it has
    fewer); the rows of a call are the last ones of their sequences. ``dump`` may hold anything
    where a row does not see a key.
    """
    _, rows, q_heads, max_keys = dump.shape
    ends = qo_lens.cumsum(0)
    back = torch.arange(rows - 1, -1, -1, device=dump.device)  # rows before the last one
    real = back < qo_lens.unsqueeze(1)  # [batch, rows]
    row = (ends.unsqueeze(1) - 1 - back).clamp(min=0)
    key = torch.arange(max_keys, device=dump.device)
    seen = real.unsqueeze(2) & (key < (kv_lens.unsqueeze(1) - back).unsqueeze(2))
    weights = torch.exp2(dump * (scale / math.log(2)) - lse[row].unsqueeze(-1))
    total = weights.masked_fill(~seen.unsqueeze(2), 0).sum((1, 2))  # [batch, max_kv_len]
    total /= qo_lens.clamp(1, rows).unsqueeze(1)
    scores = total / q_heads if heads == "mean" else total
    return scores[key < kv_lens.unsqueeze(1)]
