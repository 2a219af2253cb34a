"""Pivot merging, one dropped key after the other."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Generator, Tensor

from agentserve.kernels.spec import Case, Inputs, Spec, Tolerance


def reference(
    k_buffers: list[Tensor], v_buffers: list[Tensor], dropped: Tensor, kept: Tensor
) -> tuple[list[Tensor], list[Tensor]]:
    merged = [_layer(*layer, dropped, kept) for layer in zip(k_buffers, v_buffers, strict=True)]
    return [k for k, _ in merged], [v for _, v in merged]


def _layer(k: Tensor, v: Tensor, dropped: Tensor, kept: Tensor) -> tuple[Tensor, Tensor]:
    new_k, new_v = k.clone(), v.clone()
    for head in range(k.shape[1]):
        members: list[list[int]] = [[] for _ in kept]
        for slot in dropped.tolist():
            similar = F.cosine_similarity(k[slot, head].float(), k[kept, head].float(), dim=-1)
            members[int(similar.argmax())].append(slot)
        for pivot, joined in zip(kept.tolist(), members, strict=True):
            for old, new in ((k, new_k), (v, new_v)):
                own = old[pivot, head].float()
                halves = [(own + old[slot, head].float()) / 2 for slot in joined]
                new[pivot, head] = torch.stack([own, *halves]).mean(0).to(old.dtype)
    return new_k, new_v


def inputs(
    generator: Generator,
    dtype: torch.dtype,
    *,
    length: int,
    kept: int,
    layers: int = 2,
    kv_heads: int = 2,
    dim: int = 64,
    alike: int = 0,
) -> Inputs:
    """A sequence in slots of no order; the keys are ``alike`` different ones (all if 0), so that
    many are equally similar."""
    slots = length + 5
    order = torch.randperm(slots, generator=generator)[:length]

    def buffer() -> Tensor:
        rows = torch.randn(slots, kv_heads, dim, generator=generator).to(dtype)
        return rows[torch.arange(slots) % alike].contiguous() if alike else rows

    return {
        "k_buffers": [buffer() for _ in range(layers)],
        "v_buffers": [buffer() for _ in range(layers)],
        "dropped": order[kept:],
        "kept": order[:kept],
    }


SPEC = Spec(
    name="merge_kv",
    reference=reference,
    inputs=inputs,
    cases=(
        Case("float32", {"length": 230, "kept": 150}),
        Case("bfloat16, dim 128", {"length": 70, "kept": 20, "dim": 128}, torch.bfloat16),
        Case("float16", {"length": 40, "kept": 37, "kv_heads": 4}, torch.float16),
        Case("one kept", {"length": 20, "kept": 1, "layers": 1}),
        Case("nothing dropped", {"length": 20, "kept": 20, "layers": 1}),
        Case("equal keys", {"length": 40, "kept": 20, "alike": 3}),
    ),
    # One rounding to the buffer's dtype is left; sums are in float32.
    tolerances={
        torch.float32: Tolerance(1e-5, 1e-5),
        torch.float16: Tolerance(1e-3, 1e-3),
        torch.bfloat16: Tolerance(1e-2, 1e-2),
    },
    writes=("k_buffers", "v_buffers"),
)
