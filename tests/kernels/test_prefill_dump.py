"""Scores from the logits a prefill kernel would dump, against those from passes of their own."""

from __future__ import annotations

import math
from functools import partial

import pytest
import torch
from torch import Tensor

from agentserve.kernels import build, received_attention
from agentserve.kernels.cuda import prefill_dump
from agentserve.kernels.specs.received_attention import inputs

QO_LENS, KV_LENS, ROWS = (5, 2, 9), (5, 40, 23), 4
"""A whole prompt, one shorter than the dump's rows behind a prefix, one behind a prefix."""


def dumped(q: Tensor, k_cache: Tensor, pages: Tensor, scale: float) -> tuple[Tensor, Tensor]:
    """What the kernel leaves: raw logits where a row sees a key (NaN elsewhere), and the LSE."""
    group = q.shape[1] // k_cache.shape[2]
    dump = torch.full((len(QO_LENS), ROWS, q.shape[1], max(KV_LENS)), torch.nan)
    lse = torch.empty(q.shape[:2])
    row = first_key = 0
    for request, (qo_len, kv_len) in enumerate(zip(QO_LENS, KV_LENS, strict=True)):
        keys = k_cache[pages[first_key : first_key + kv_len].long(), 0].repeat_interleave(group, 1)
        for own in range(qo_len):
            seen = keys[: kv_len - qo_len + own + 1]
            logits = torch.einsum("hd,khd->hk", q[row], seen)
            lse[row] = (logits * scale).logsumexp(-1) / math.log(2)
            place = own + ROWS - qo_len
            if place >= 0:
                dump[request, place, :, : len(seen)] = logits
            row += 1
        first_key += kv_len
    return dump, lse


@pytest.mark.parametrize("heads", ["mean", "sum"])
def test_scores_are_those_of_the_last_rows(heads) -> None:
    generator = torch.Generator().manual_seed(0)
    lasts = [range(kv - qo, kv) for qo, kv in zip(QO_LENS, KV_LENS, strict=True)]
    whole = inputs(
        generator, torch.float32, lengths=KV_LENS, rows=tuple(map(tuple, lasts)), heads=heads
    )
    dump, lse = dumped(whole["q"], whole["k_cache"], whole["pages"], whole["scale"])
    qo_lens, kv_lens = (torch.tensor(each, dtype=torch.int32) for each in (QO_LENS, KV_LENS))
    scores = prefill_dump.scores_from_dump(
        dump, lse, qo_lens, kv_lens, scale=whole["scale"], heads=heads
    )
    used = torch.cat([torch.arange(qo) >= qo - ROWS for qo in QO_LENS])
    counts = torch.tensor([0, *(min(qo, ROWS) for qo in QO_LENS)])
    last_rows = {
        "q": whole["q"][used],
        "row_positions": whole["row_positions"][used],
        "row_indptr": counts.cumsum(0).int(),
    }
    torch.testing.assert_close(scores, received_attention(**whole | last_rows))


@pytest.mark.soak
@pytest.mark.timeout(1200)
def test_the_variant_compiles() -> None:
    if reason := build.missing():
        pytest.skip(reason)
    spec = partial(prefill_dump.jit_spec, torch.bfloat16, 128)
    kernels = build.compile_objects("90a", spec)
    assert any("DumpLogits" in kernel.name for kernel in kernels)
