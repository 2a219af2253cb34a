"""Which backend runs a call, and how that is counted."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
import torch

from agentserve.kernels import BackendUnavailable, Count, counts, select_keep
from agentserve.kernels import dispatch as dispatching

SCORES = torch.tensor([3.0, 1.0, 2.0])
INDPTR = torch.tensor([0, 3], dtype=torch.int32)
KEEP = torch.tensor([2], dtype=torch.int32)


@contextmanager
def counted(**expected: Count) -> Iterator[None]:
    """Inside, these counts of ``select_keep`` grow by as much, and no others."""
    before = counts()
    try:
        yield
    finally:
        grown = {}
        for (op, backend), count in counts().items():
            old = before.get((op, backend), Count())
            if count != old:
                assert op == "select_keep"
                grown[backend] = Count(
                    count.hit - old.hit, count.fallback - old.fallback, count.error - old.error
                )
        assert grown == expected


def test_a_cpu_takes_torch() -> None:
    with counted(torch=Count(hit=1)):
        kept, indptr = select_keep(SCORES, INDPTR, KEEP)
    assert kept.tolist() == [0, 2]
    assert indptr.tolist() == [0, 2]


@pytest.mark.parametrize("backend", ["cuda", "triton"])
def test_a_named_backend_that_cannot_run_raises(backend) -> None:
    with counted(**{backend: Count(error=1)}), pytest.raises(BackendUnavailable):
        select_keep(SCORES, INDPTR, KEEP, backend=backend)


def test_an_automatic_choice_that_falls_back_is_counted(monkeypatch) -> None:
    """As on a GPU box without nvcc and Triton."""
    monkeypatch.setattr(dispatching, "_BEST_FIRST", {"cpu": ("cuda", "triton", "torch")})
    with counted(cuda=Count(fallback=1), triton=Count(fallback=1), torch=Count(hit=1)):
        kept, _ = select_keep(SCORES, INDPTR, KEEP)
    assert kept.tolist() == [0, 2]


def test_a_failure_is_no_reason_to_fall_back(monkeypatch) -> None:
    monkeypatch.setattr(dispatching, "_BEST_FIRST", {"cpu": ("torch", "triton")})
    wrong_bounds = torch.tensor([0, 2], dtype=torch.int32)
    with counted(torch=Count(error=1)), pytest.raises(IndexError):
        select_keep(SCORES, wrong_bounds, KEEP)


def test_an_unknown_backend_is_named() -> None:
    with counted(), pytest.raises(ValueError, match="'numpy'"):
        select_keep(SCORES, INDPTR, KEEP, backend="numpy")  # type: ignore[arg-type]


def test_the_package_stands_alone() -> None:
    """A GPU box without the rest of agentserve can import and check it."""
    program = """
import sys
import agentserve.kernels.specs
mine = {name for name in sys.modules if name.startswith("agentserve.")}
assert all(name.startswith("agentserve.kernels") for name in mine), mine
assert not {"sglang", "triton", "flashinfer"} & sys.modules.keys()
"""
    subprocess.run([sys.executable, "-c", program], check=True)
