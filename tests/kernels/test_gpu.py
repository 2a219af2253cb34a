"""The kernels on a GPU. Needs torch, triton, flashinfer, pytest, and nothing else of agentserve:

    python -m pytest --noconftest -m gpu -s tests/kernels/test_gpu.py

FlashInfer's JIT builds the CUDA module at the first use, in about a minute.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from agentserve.kernels import BackendUnavailable, compact_kv, counts, received_attention
from agentserve.kernels.cuda import prefill_dump
from agentserve.kernels.dispatch import Backend
from agentserve.kernels.spec import Case, Spec
from agentserve.kernels.specs import ALL
from agentserve.kernels.specs.received_attention import inputs

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


def test_prefill_dumps_what_received_attention_finds() -> None:
    """FlashInfer compiles the variant first: minutes on few cores."""
    qo_lens, kv_lens, rows = (300, 3, 12), (300, 3, 77), 4
    lasts = tuple(tuple(range(kv - qo, kv)) for qo, kv in zip(qo_lens, kv_lens, strict=True))
    made = inputs(
        torch.Generator().manual_seed(0), torch.bfloat16, lengths=kv_lens, rows=lasts,
        page_size=16, dim=128,
    )  # fmt: skip
    made = {name: x.cuda() if isinstance(x, torch.Tensor) else x for name, x in made.items()}
    q, k_cache = made["q"], made["k_cache"]
    wrapper = prefill_dump.prefill_wrapper(
        torch.empty(128 << 20, dtype=torch.uint8, device="cuda"), q.dtype, q.shape[2]
    )
    wrapper.plan(
        made["row_indptr"], made["page_indptr"], made["pages"], made["last_page_len"],
        q.shape[1], k_cache.shape[2], q.shape[2], k_cache.shape[1], causal=True,
        q_data_type=q.dtype,
    )  # fmt: skip
    dump = torch.full((len(qo_lens), rows, q.shape[1], max(kv_lens)), torch.nan, device="cuda")
    run = (dump, made["scale"], rows, max(kv_lens))
    _, lse = wrapper.run(q, (k_cache, k_cache), *run, return_lse=True)
    scores = prefill_dump.scores_from_dump(
        dump,
        lse,
        torch.tensor(qo_lens, dtype=torch.int32, device="cuda"),
        torch.tensor(kv_lens, dtype=torch.int32, device="cuda"),
        scale=made["scale"],
    )
    used = torch.cat([torch.arange(qo) >= qo - rows for qo in qo_lens]).cuda()
    counts = torch.tensor([0, *(min(qo, rows) for qo in qo_lens)])
    made |= {
        "q": q[used],
        "row_positions": made["row_positions"][used],
        "row_indptr": counts.cumsum(0).int().cuda(),
    }
    torch.testing.assert_close(scores, received_attention(**made), atol=1e-5, rtol=1e-2)


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
