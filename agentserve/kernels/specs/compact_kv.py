"""Moving KV rows, one after the other."""

from __future__ import annotations

import torch
from torch import Generator, Tensor

from agentserve.kernels.spec import EXACT, Case, Inputs, Spec


def reference(
    k_buffers: list[Tensor], v_buffers: list[Tensor], source: Tensor, target: Tensor
) -> tuple[list[Tensor], list[Tensor]]:
    moves = list(zip(source.tolist(), target.tolist(), strict=True))

    def moved(buffer: Tensor) -> Tensor:
        rows = buffer.view(torch.uint8).clone()
        for from_slot, to_slot in moves:
            rows[to_slot] = rows[from_slot]
        return rows.view(buffer.dtype)

    return [moved(each) for each in k_buffers], [moved(each) for each in v_buffers]


def inputs(
    generator: Generator,
    dtype: torch.dtype,
    *,
    slots: int,
    length: int,
    keep: int,
    in_order: bool = True,
    layers: int = 2,
    kv_heads: int = 2,
    dim: int = 64,
) -> Inputs:
    """A sequence of ``length`` rows keeps ``keep`` of them, in its first slots."""
    row = torch.randperm(slots, generator=generator)[:length]
    if in_order:
        row = row.sort().values
    kept = torch.randperm(length, generator=generator)[:keep].sort().values

    def buffers() -> list[Tensor]:
        return [
            torch.randn(slots, kv_heads, dim, generator=generator).to(dtype) for _ in range(layers)
        ]

    return {
        "k_buffers": buffers(),
        "v_buffers": buffers(),
        "source": row[kept],
        "target": row[:keep],
    }


_SMALL = {"slots": 700, "length": 640, "keep": 555}

SPEC = Spec(
    name="compact_kv",
    reference=reference,
    inputs=inputs,
    cases=(
        Case("float32", _SMALL),
        Case("bfloat16", _SMALL, torch.bfloat16),
        Case("float16, slots in no order", _SMALL | {"in_order": False}, torch.float16),
        Case("float8_e4m3fn", _SMALL | {"in_order": False}, torch.float8_e4m3fn),
        Case("float8_e5m2", _SMALL | {"kv_heads": 1, "dim": 48}, torch.float8_e5m2),
        Case("nothing", _SMALL | {"keep": 0}),
        Case("everything stays", _SMALL | {"keep": 640}, torch.bfloat16),
        Case("five layers, long rows", _SMALL | {"layers": 5, "kv_heads": 4, "dim": 128}),
    ),
    tolerances=dict.fromkeys(
        (torch.float32, torch.float16, torch.bfloat16, torch.float8_e4m3fn, torch.float8_e5m2),
        EXACT,
    ),
    writes=("k_buffers", "v_buffers"),
)
