"""Choosing what to keep, with Python's own sort."""

from __future__ import annotations

import math
from collections import Counter

import torch
from torch import Generator, Tensor

from agentserve.kernels.keys import tie_break
from agentserve.kernels.spec import EXACT, Case, Inputs, Spec


def reference(
    scores: Tensor,
    indptr: Tensor,
    keep: Tensor,
    *,
    groups: Tensor | None,
    group_min: Tensor | None,
    seed: int,
) -> tuple[Tensor, Tensor]:
    kept: list[int] = []
    starts = [0]
    bounds = indptr.tolist()
    least = [] if group_min is None else group_min.tolist()
    for begin, end, budget in zip(bounds[:-1], bounds[1:], keep.tolist(), strict=True):
        values = scores[begin:end].tolist()
        group = [-1] * len(values) if groups is None else groups[begin:end].tolist()
        tie = tie_break(torch.arange(len(values)), seed).tolist()
        preference = [
            (-math.inf if v != v else v, v == v, t) for v, t in zip(values, tie, strict=True)
        ]
        order = sorted(range(len(values)), key=preference.__getitem__, reverse=True)
        chosen: set[int] = set()
        taken: Counter[int] = Counter()
        for i in order:
            if group[i] >= 0 and taken[group[i]] < least[group[i]]:
                taken[group[i]] += 1
                chosen.add(i)
        for i in order:
            if len(chosen) < budget:
                chosen.add(i)
        kept += sorted(chosen)
        starts.append(len(kept))
    return torch.tensor(kept, dtype=torch.int64), torch.tensor(starts, dtype=torch.int32)


def inputs(
    generator: Generator,
    dtype: torch.dtype,
    *,
    lengths: tuple[int, ...],
    keep: tuple[int, ...],
    levels: int | None = None,
    n_groups: int = 0,
    special: tuple[float, ...] = (),
    seed: int = 0,
) -> Inputs:
    """Scores of ``levels`` different values (any if None), the first replaced by ``special``."""
    n = sum(lengths)
    scores = torch.randn(n, generator=generator)
    if levels is not None:
        scores = torch.randint(levels, (n,), generator=generator).to(dtype)
    scores[: len(special)] = torch.tensor(special)
    groups = group_min = None
    if n_groups:
        groups = torch.randint(-1, n_groups, (n,), generator=generator).int()
        group_min = torch.randint(6, (n_groups,), generator=generator).int()
    return {
        "scores": scores,
        "indptr": torch.tensor([0, *lengths]).cumsum(0).int(),
        "keep": torch.tensor(keep, dtype=torch.int32),
        "groups": groups,
        "group_min": group_min,
        "seed": seed,
    }


_BATCH = {"lengths": (40, 1, 0, 130, 7), "keep": (20, 1, 3, 0, 9)}
_SMALL_BATCH = {"lengths": (60, 0, 25), "keep": (20, 3, 9)}

SPEC = Spec(
    name="select_keep",
    reference=reference,
    inputs=inputs,
    cases=(
        Case("one long request", {"lengths": (5000,), "keep": (1250,)}),
        Case("ragged batch", _BATCH),
        Case("no scores", {"lengths": (0,), "keep": (2,)}),
        Case("ties", _BATCH | {"levels": 3}),
        Case("all equal, another seed", _BATCH | {"levels": 1, "seed": 12345}),
        Case("groups", _SMALL_BATCH | {"n_groups": 4}),
        Case("groups and ties", _SMALL_BATCH | {"n_groups": 3, "levels": 2, "seed": -7}),
        Case(
            "special values",
            _BATCH
            | {"special": (math.nan, -math.inf, math.inf, -0.0, 0.0, -math.nan, -0.0, 0.0) * 4},
        ),
    ),
    tolerances={torch.float32: EXACT},
)
