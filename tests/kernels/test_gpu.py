"""The kernels on a GPU. Needs torch, triton, flashinfer, pytest, and nothing else of agentserve:

    python -m pytest --noconftest -m gpu -s tests/kernels/test_gpu.py

FlashInfer's JIT builds the CUDA module at the first use, in about a minute.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from agentserve.kernels import BackendUnavailable, compact_kv, counts
from agentserve.kernels.dispatch import Backend
from agentserve.kernels.spec import Case, Spec
from agentserve.kernels.specs import ALL

pytestmark = pytest.mark.gpu

BACKENDS: tuple[Backend, ...] = ("torch", "triton", "cuda")
CASES = [
    pytest.param(spec, case, id=f"{spec.name}: {case.name}") for spec in ALL for case in spec.cases
]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(("spec", "case"), CASES)
def test_a_backend_agrees_with_the_reference(spec: Spec, case: Case, backend: Backend) -> None:
    if backend in case.refused_by:
        with pytest.raises(BackendUnavailable):
            spec.check(case, backend, device="cuda")
        return
    for seed in range(3):
        spec.check(case, backend, seed, device="cuda")


LAYERS, SLOTS, ROW, MOVED = 28, 60_000, (4, 128), 30_000


@pytest.mark.parametrize(("backend", "least"), [("cuda", 0.5), ("triton", 0.4)])
def test_compaction_has_its_share_of_the_copy_bandwidth(backend: Backend, least: float) -> None:
    """All layers of a 7B model lose every second row on average, against one plain copy as big."""

    def buffers() -> list[torch.Tensor]:
        return [
            torch.zeros(SLOTS, *ROW, dtype=torch.bfloat16, device="cuda") for _ in range(LAYERS)
        ]

    k_buffers, v_buffers = buffers(), buffers()
    kept = torch.randperm(SLOTS, device="cuda")[:MOVED].sort().values
    first = torch.arange(MOVED, device="cuda")
    plain = torch.zeros(2 * LAYERS * MOVED, *ROW, dtype=torch.bfloat16, device="cuda")
    copy = torch.empty_like(plain)
    moved = 2 * plain.nbytes  # read and written
    compaction = milliseconds(
        lambda: compact_kv(k_buffers, v_buffers, kept, first, backend=backend)
    )
    copying = milliseconds(lambda: copy.copy_(plain))
    share = copying / compaction
    print(
        f"\ncompact_kv, {backend}: {moved / compaction / 1e6:.0f} GB/s, "
        f"{share:.0%} of a copy's {moved / copying / 1e6:.0f} GB/s"
    )
    assert share > least


def test_an_automatic_choice_is_the_cuda_kernel() -> None:
    spec = next(spec for spec in ALL if spec.name == "compact_kv")
    before = counts().get(("compact_kv", "cuda"))
    compact_kv(**spec.example(spec.cases[0], device="cuda"))
    after = counts()["compact_kv", "cuda"]
    assert after.hit == (before.hit if before else 0) + 1


def milliseconds(run: Callable[[], object], times: int = 20) -> float:
    """How long one run takes on the device, the best of some."""
    results = []
    run()
    for _ in range(times):
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        run()
        end.record()
        end.synchronize()
        results.append(start.elapsed_time(end))
    return min(results)
