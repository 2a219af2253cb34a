"""Bipartite soft matching, token by token."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Generator, Tensor

from agentserve.kernels.spec import Case, Inputs, Spec, Tolerance


def reference(
    x: Tensor, sizes: Tensor, r: int, *, metric: Tensor | None
) -> tuple[Tensor, Tensor, Tensor]:
    metric = x if metric is None else metric
    edges: list[tuple[float, int, int]] = []
    for token in range(0, len(x), 2) if r else ():
        similar = F.cosine_similarity(metric[token].float(), metric[1::2].float(), dim=-1)
        best = int(similar.argmax())
        edges.append((-float(similar[best]), token, 2 * best + 1))
    members = {token: [token] for token in range(len(x))}
    for _, token, into in sorted(edges)[:r]:
        members[into] += members.pop(token)
    order = sorted(members)
    merged = [
        (x[members[token]].float() * sizes[members[token], None]).sum(0)
        / sizes[members[token]].sum()
        for token in order
    ]
    return (
        torch.stack(merged).to(x.dtype),
        torch.stack([sizes[members[token]].sum() for token in order]),
        torch.tensor(order),
    )


def inputs(
    generator: Generator,
    dtype: torch.dtype,
    *,
    n: int,
    r: int,
    d: int = 64,
    metric_dim: int = 0,
    alike: int = 0,
) -> Inputs:
    """Tokens that stand for 1 to 4 each; ``alike`` different ones if that is not 0."""
    x = torch.randn(n, d, generator=generator).to(dtype)
    metric = torch.randn(n, metric_dim, generator=generator).to(dtype) if metric_dim else None
    return {
        "x": x[torch.arange(n) % alike] if alike else x,
        "sizes": torch.randint(1, 5, (n,), generator=generator).float(),
        "r": r,
        "metric": metric,
    }


SPEC = Spec(
    name="similarity_merge",
    reference=reference,
    inputs=inputs,
    cases=(
        Case("float32", {"n": 300, "r": 90}),
        Case("odd, most merged", {"n": 51, "r": 25}),
        Case(
            "bfloat16 with a metric", {"n": 80, "r": 33, "d": 96, "metric_dim": 32}, torch.bfloat16
        ),
        Case("float16", {"n": 64, "r": 1, "d": 128}, torch.float16),
        Case("nothing merged", {"n": 9, "r": 0}),
        Case("one token", {"n": 1, "r": 0}),
        Case("equal tokens", {"n": 40, "r": 11, "alike": 4}),
    ),
    tolerances={
        torch.float32: Tolerance(1e-5, 1e-5),
        torch.float16: Tolerance(1e-3, 1e-3),
        torch.bfloat16: Tolerance(1e-2, 1e-2),
    },
)
