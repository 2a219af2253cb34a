"""The attention that keys receive, row by row and head by head."""

from __future__ import annotations

import torch
from torch import Generator, Tensor

from agentserve.kernels.spec import Case, Inputs, Spec, Tolerance


def reference(
    q: Tensor,
    k_cache: Tensor,
    row_indptr: Tensor,
    row_positions: Tensor,
    page_indptr: Tensor,
    pages: Tensor,
    last_page_len: Tensor,
    *,
    scale: float,
    heads: str,
) -> Tensor:
    page_size, kv_heads = k_cache.shape[1:3]
    q_heads = q.shape[1]
    scores = []
    for request in range(len(last_page_len)):
        own = pages[page_indptr[request] : page_indptr[request + 1]]
        length = max(len(own) - 1, 0) * page_size + int(last_page_len[request]) * bool(len(own))
        keys = k_cache[own.long()].flatten(0, 1)[:length].float()
        score = torch.zeros(length)
        rows = range(int(row_indptr[request]), int(row_indptr[request + 1]))
        for row in rows:
            seen = int(row_positions[row]) + 1
            for head in range(q_heads):
                logits = keys[:seen, head // (q_heads // kv_heads)] @ q[row, head].float() * scale
                score[:seen] += logits.softmax(0)
        score /= max(len(rows), 1)
        scores.append(score / q_heads if heads == "mean" else score)
    return torch.cat(scores)


def inputs(
    generator: Generator,
    dtype: torch.dtype,
    *,
    lengths: tuple[int, ...],
    rows: tuple[tuple[int, ...], ...],
    page_size: int = 1,
    kv_heads: int = 2,
    group: int = 4,
    dim: int = 64,
    heads: str = "mean",
) -> Inputs:
    """Requests of ``lengths`` keys in pages that lie in no order, rows at the given positions."""
    pages_of = [-(-length // page_size) for length in lengths]
    n_pages, n_rows = sum(pages_of), sum(map(len, rows))
    return {
        "q": torch.randn(n_rows, kv_heads * group, dim, generator=generator).to(dtype),
        "k_cache": torch.randn(n_pages + 3, page_size, kv_heads, dim, generator=generator).to(
            dtype
        ),
        "row_indptr": _starts([len(each) for each in rows]),
        "row_positions": torch.tensor(sum(rows, ()), dtype=torch.int32),
        "page_indptr": _starts(pages_of),
        "pages": torch.randperm(n_pages + 3, generator=generator)[:n_pages].int(),
        "last_page_len": torch.tensor(
            [(length - 1) % page_size + 1 if length else 0 for length in lengths],
            dtype=torch.int32,
        ),
        "scale": dim**-0.5,
        "heads": heads,
    }


def _starts(counts: list[int]) -> Tensor:
    return torch.tensor([0, *counts]).cumsum(0).int()


def _last(length: int, rows: int) -> tuple[int, ...]:
    return tuple(range(length - rows, length))


_MIXED = {
    "lengths": (70, 5, 0, 133, 16),
    "rows": (_last(70, 1), _last(5, 5), (), (3, 17, 64, 90, 132), ()),
}

SPEC = Spec(
    name="received_attention",
    reference=reference,
    inputs=inputs,
    cases=(
        Case("last row", {"lengths": (150,), "rows": (_last(150, 1),)}),
        Case("long", {"lengths": (1500,), "rows": (_last(1500, 2),), "kv_heads": 1}),
        Case("mixed batch", _MIXED),
        Case("mixed batch, pages of 16", _MIXED | {"page_size": 16}),
        Case("sum over heads", _MIXED | {"heads": "sum"}),
        Case("bfloat16, dim 128", _MIXED | {"page_size": 16, "dim": 128}, torch.bfloat16),
        Case("float16, seven heads a group", _MIXED | {"group": 7}, torch.float16),
        Case("every row", {"lengths": (90,), "rows": (_last(90, 90),), "group": 1}),
        Case(
            "small heads",
            _MIXED | {"dim": 32, "kv_heads": 1, "group": 2},
            refused_by=("cuda",),
        ),
    ),
    # Products of 16-bit numbers are exact in float32, so the dtype matters little.
    tolerances={
        torch.float32: Tolerance(1e-6, 1e-4),
        torch.float16: Tolerance(1e-6, 1e-3),
        torch.bfloat16: Tolerance(1e-6, 1e-3),
    },
)
