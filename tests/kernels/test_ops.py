"""What the operations refuse, and what holds beyond agreement with a reference."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from agentserve.kernels import compact_kv, merge_kv, ops, received_attention, select_keep
from agentserve.kernels.keys import tie_break
from agentserve.kernels.specs import ALL

SPECS = {spec.name: spec for spec in ALL}


@pytest.mark.parametrize(
    ("op", "wrong", "message"),
    [
        ("received_attention", {"heads": "max"}, "'mean' or 'sum'"),
        ("received_attention", {"pages": torch.arange(150)}, "int32"),
        ("received_attention", {"q": torch.zeros(1, 8, 32)}, "dim 32"),
        ("received_attention", {"q": torch.zeros(1, 7, 64)}, "multiple"),
        ("received_attention", {"row_positions": torch.zeros(3).int()}, "one position a row"),
        ("select_keep", {"scores": torch.zeros(5000, 1)}, r"float32 \[n\]"),
        ("select_keep", {"keep": torch.zeros(2).int()}, "batch entries"),
        ("select_keep", {"groups": torch.zeros(5000).int()}, "together"),
        ("compact_kv", {"target": torch.zeros(3).long()}, "as many sources"),
        ("compact_kv", {"v_buffers": [torch.zeros(700, 2, 64)]}, "as many K buffers"),
        ("compact_kv", {"v_buffers": [torch.zeros(700, 2, 32)] * 2}, "alike"),
        ("merge_kv", {"kept": torch.zeros(0).long()}, "something is kept"),
        ("merge_kv", {"kept": torch.zeros(3).int()}, "int64"),
        ("similarity_merge", {"r": 151}, r"0\.\.150"),
        ("similarity_merge", {"sizes": torch.ones(99)}, "one size"),
    ],
)
def test_a_wrong_argument_is_refused(op: str, wrong: dict[str, Any], message: str) -> None:
    spec = SPECS[op]
    inputs = spec.example(spec.cases[0])
    with pytest.raises(ValueError, match=message):
        getattr(ops, op)(**inputs | wrong)


def test_scores_of_a_row_add_up_to_one() -> None:
    spec = SPECS["received_attention"]
    inputs = spec.example(spec.cases[0])
    assert received_attention(**inputs).sum().item() == pytest.approx(1, abs=1e-5)


def test_a_request_s_choice_does_not_depend_on_its_company() -> None:
    """Ties included: the same scores, alone and as the second of three."""
    scores = torch.randint(3, (50,), generator=torch.Generator().manual_seed(0)).float()
    keep = torch.tensor([20], dtype=torch.int32)
    alone, _ = select_keep(scores, torch.tensor([0, 50], dtype=torch.int32), keep, seed=4)
    together, indptr = select_keep(
        torch.cat((torch.ones(17), scores, torch.zeros(9))),
        torch.tensor([0, 17, 67, 76], dtype=torch.int32),
        torch.tensor([5, 20, 3], dtype=torch.int32),
        seed=4,
    )
    assert together[indptr[1] : indptr[2]].tolist() == alone.tolist()


def test_ties_fall_differently_with_another_seed() -> None:
    scores, indptr = torch.zeros(100), torch.tensor([0, 100], dtype=torch.int32)
    keep = torch.tensor([50], dtype=torch.int32)
    first, second = (select_keep(scores, indptr, keep, seed=seed)[0] for seed in (0, 1))
    assert first.tolist() != second.tolist()
    assert 15 < int((first < 50).sum()) < 35  # no end of the request is preferred


def test_no_two_indices_share_a_hash() -> None:
    assert len(tie_break(torch.arange(100_000), seed=9).unique()) == 100_000


def test_minimums_raise_the_budget() -> None:
    scores, indptr = torch.arange(10).float(), torch.tensor([0, 10], dtype=torch.int32)
    groups = torch.tensor([0] * 5 + [1] * 5, dtype=torch.int32)
    least = torch.tensor([3, 2], dtype=torch.int32)
    keep = torch.tensor([4], dtype=torch.int32)
    kept, _ = select_keep(scores, indptr, keep, groups=groups, group_min=least)
    assert kept.tolist() == [2, 3, 4, 8, 9]


@pytest.mark.parametrize("op", [compact_kv, merge_kv])
def test_other_slots_stay_as_they_are(op) -> None:
    spec = SPECS[op.__name__]
    inputs = spec.example(spec.cases[0])
    before = [buffer.clone() for buffer in inputs["k_buffers"]]
    op(**inputs)
    written = inputs["target" if op is compact_kv else "kept"]
    others = torch.ones(len(before[0]), dtype=torch.bool).index_fill(0, written, False)
    for old, new in zip(before, inputs["k_buffers"], strict=True):
        assert torch.equal(old[others], new[others])
        assert not torch.equal(old, new)
