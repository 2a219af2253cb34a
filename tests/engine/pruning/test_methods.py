"""The methods' rules on attention, states and embeddings that are given."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest
import torch
from torch import Tensor

from agentserve.core.pruning import Pruning
from agentserve.engine.pruning.methods import Verdict, choose


@dataclass
class View:
    """Of one item."""

    received: Tensor  # [voices, n]
    keep: int
    stage: int = 0
    next_received: Tensor | None = None
    given_states: Tensor | None = None
    given_embeddings: tuple[Tensor, Tensor] | None = None
    asked: list[list[int]] = field(default_factory=list)

    @property
    def voices(self) -> int:
        return len(self.received)

    def attention(self, rows: Tensor) -> Tensor:
        self.asked.append(rows.tolist())
        return self.received[rows].mean(0)

    def next_attention(self) -> Tensor:
        assert self.next_received is not None
        return self.next_received

    def states(self) -> Tensor:
        assert self.given_states is not None
        return self.given_states

    def embeddings(self) -> tuple[Tensor, Tensor]:
        assert self.given_embeddings is not None
        return self.given_embeddings

    def top(self, scores: Tensor, keep: int) -> Tensor:
        return torch.argsort(scores, descending=True, stable=True)[:keep].sort().values


def kept(verdict: Verdict) -> list[int]:
    return verdict.kept.tolist()


class TestFastV:
    RECEIVED = torch.tensor([[0.1, 0.9, 0.2, 0.3], [0.8, 0.1, 0.5, 0.2], [0.1, 0.0, 0.3, 0.9]])

    @pytest.mark.parametrize(
        ("rows", "asked", "expected"),
        [(1, [2], [2, 3]), (2, [1, 2], [0, 3]), (3, [0, 1, 2], [1, 3]), (64, [0, 1, 2], [1, 3])],
    )
    def test_the_last_rows_have_a_say(self, rows: int, asked: list[int], expected: list[int]):
        view = View(self.RECEIVED, keep=2)
        if rows > 2:
            view.received = self.RECEIVED * torch.tensor([[3.0], [0.1], [1.0]])
        assert kept(choose(Pruning(method="fastv", rows=rows), view)) == expected
        assert view.asked == [asked]


def test_pyramid_drop_goes_by_the_next_layer():
    view = View(torch.zeros(2, 4), keep=2, next_received=torch.tensor([0.4, 0.1, 0.3, 0.2]))
    assert kept(choose(Pruning(method="pyramid_drop"), view)) == [0, 2]
    assert view.asked == []


class TestBtp:
    PRUNING = Pruning(method="btp")

    def directions(self, *degrees: float) -> Tensor:
        angles = torch.tensor(degrees).deg2rad()
        return torch.stack((angles.cos(), angles.sin()), dim=1)

    def test_early_stages_spread_from_the_most_attended(self):
        states = self.directions(0, 5, 40, 90, 180, 182)
        attention = torch.tensor([[0.1, 0.9, 0.2, 0.1, 0.1, 0.1]])
        # one seed of three: then the farthest from it, then the farthest from both
        view = View(attention, keep=3, given_states=states)
        assert kept(choose(self.PRUNING, view)) == [1, 3, 5]
        assert view.asked == [[0]]

    @pytest.mark.parametrize(("stage", "expected"), [(0, [1, 3, 4, 5]), (1, [1, 2, 4, 5])])
    def test_more_seeds_in_the_second_stage(self, stage: int, expected: list[int]):
        """40 % of five are two seeds, though they are alike; 12 % are one."""
        states = self.directions(0, 10, 11, 60, 180, 270)
        attention = torch.tensor([[0.5, 0.9, 0.8, 0.1, 0.1, 0.1]])
        view = View(attention, keep=5, stage=stage, given_states=states)
        assert set(expected) <= set(kept(choose(self.PRUNING, view)))

    def test_late_stages_prefer_early_ones_of_a_few_more(self):
        attention = torch.tensor([[0.9, 0.0, 0.3, 0.0, 0.0, 0.8, 0.7, 0.6, 0.5, 0.4]])
        view = View(attention, keep=5, stage=2)
        # six are looked at, 0 and 5 … 9; those among the first five places come first
        assert kept(choose(self.PRUNING, view)) == [0, 5, 6, 7, 8]
        attention = torch.tensor([[0.9, 0.0, 0.41, 0.0, 0.0, 0.8, 0.7, 0.6, 0.5, 0.4]])
        assert kept(choose(self.PRUNING, View(attention, keep=5, stage=2))) == [0, 2, 5, 6, 7]
        attention = torch.tensor([[0.9, 0.0, 0.45, 0.0, 0.0, 0.8, 0.7, 0.6, 0.5, 0.4]])
        plain = attention[0].topk(5).indices.sort().values.tolist()
        assert kept(choose(self.PRUNING, View(attention, keep=5, stage=2))) != plain


class TestSparseVlm:
    def view(self, received: Tensor, keep: int, text: Tensor, states: Tensor | None = None) -> View:
        return View(
            received,
            keep,
            given_states=states,
            given_embeddings=(torch.ones(received.shape[1], text.shape[1]), text),
        )

    def test_text_that_is_like_the_picture_rates(self):
        text = torch.tensor([[3.0, 0.0], [0.0, 0.0], [0.0, 3.0]])
        received = torch.tensor([[0.9, 0.1, 0.0], [0.0, 0.0, 9.0], [0.7, 0.2, 0.1]])
        view = self.view(received, 2, text)
        assert kept(choose(Pruning(method="sparsevlm"), view)) == [0, 1]
        assert view.asked == [[0, 2]]

    @pytest.mark.parametrize("voices", [1, 3])
    def test_all_rate_when_all_are_alike(self, voices: int):
        view = self.view(torch.rand(voices, 4), 2, torch.ones(voices, 2))
        assert len(kept(choose(Pruning(method="sparsevlm"), view))) == 2
        assert view.asked == [list(range(voices))]

    def test_adaptive_takes_a_share_of_what_is_redundant(self):
        received = torch.zeros(2, 8)
        received[0, 0] = received[1, 1] = 1.0
        text = torch.ones(2, 2)
        adaptive = Pruning(method="sparsevlm", adaptive=True)
        # rank 2: six of eight are redundant, and half of these go
        assert len(kept(choose(adaptive, self.view(received, 4, text)))) == 5
        assert len(kept(choose(adaptive, self.view(torch.zeros(2, 8), 4, text)))) == 4
        assert len(kept(choose(adaptive, self.view(torch.eye(8), 4, torch.ones(8, 2))))) == 8

    def test_recycled_tokens_are_sums_in_the_places_of_their_centres(self):
        count, keep = 100, 30
        received = torch.linspace(1, 0.01, count)[None]
        states = torch.zeros(count, 3)
        # dropped: 70; 21 of them are looked at, and make two clusters
        states[28:38] = torch.tensor([5.0, 0.0, 0.0])
        states[38:49] = torch.tensor([0.0, 5.0, 0.0])
        states += torch.randn(count, 3, generator=torch.Generator().manual_seed(1)) * 0.01
        view = self.view(received, keep, torch.ones(1, 2), states)
        verdict = choose(Pruning(method="sparsevlm", recycle=True), view)
        assert len(verdict.kept) == keep
        assert kept(verdict)[:28] == list(range(28))
        assert verdict.merged is not None
        places, sums = verdict.merged
        assert kept(verdict)[28:] == places.tolist()
        assert torch.allclose(sums.sum(0), states[28:49].sum(0), atol=1e-4)
        assert sorted((places >= 38).tolist()) == [False, True]
        for place, total in zip(places.tolist(), sums, strict=True):
            own = states[28:38] if place < 38 else states[38:49]
            assert torch.allclose(total, own.sum(0), atol=1e-4)

    def test_too_little_to_recycle(self):
        view = self.view(torch.rand(1, 20), 10, torch.ones(1, 2))
        verdict = choose(Pruning(method="sparsevlm", recycle=True), view)
        assert verdict.merged is None
        assert len(verdict.kept) == 10
