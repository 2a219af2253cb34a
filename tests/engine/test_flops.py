"""Counting what a prompt takes: alone, in pieces, with others, or not at all."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch
import torch.nn.functional as F

from agentserve.engine import flops
from agentserve.engine.compat_pruning import Extent


class Request:
    pass


@pytest.fixture(autouse=True)
def counting(monkeypatch: pytest.MonkeyPatch):
    def extents(batch: Any) -> Any:
        return batch.requests and [(request, 0, Extent(0, 3)) for request in batch.requests]

    monkeypatch.setattr(flops, "_asked", lambda: True)
    monkeypatch.setattr(flops, "extents", extents)


def compute(*requests: Request) -> None:
    """Products of [3, 4] with [4, 5]: 120 operations."""
    with flops.in_batch(SimpleNamespace(requests=list(requests) or None)), flops.counting():
        torch.ones(3, 4) @ torch.ones(4, 5)


def test_all_chunks_of_a_prompt_count():
    request = Request()
    assert flops.of(request) is None
    compute(request)
    compute(request)
    assert flops.of(request) == 240


@pytest.mark.parametrize("order", [(1, 2), (2, 1)])
def test_what_shared_a_batch_is_not_told(order: tuple[int, int]):
    request, other = Request(), Request()
    for count in order:
        compute(*[request, other][:count])
    assert flops.of(request) is None
    assert flops.of(other) is None


def test_decoding_is_no_one_s():
    request = Request()
    compute(request)
    compute()
    assert flops.of(request) == 120


def test_attention_is_a_full_product():
    """8 query heads, 2 of keys; torch's own counter says 0 of this on a CPU."""
    request = Request()
    q, k = torch.ones(1, 8, 10, 16), torch.ones(1, 2, 10, 16)
    with flops.in_batch(SimpleNamespace(requests=[request])), flops.counting():
        F.scaled_dot_product_attention(q, k, k, is_causal=True, enable_gqa=True)
    assert flops.of(request) == 2 * (2 * 8 * 10 * 10 * 16)


def test_not_asked_for(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(flops, "_asked", lambda: False)
    request = Request()
    compute(request)
    assert flops.of(request) is None
