"""A forward pass in which requests give up visual tokens between two layers.

    layer 0 │ … │ layer K-1 │ stage │ layer K │ … │ the last layer
    all rows, all KV        │ score │ rows that are left, over the KV of those that are left

At a stage the rows of the dropped tokens leave the batch, and the slots of those that are left move
up in the request's row: the layers behind it, and the answer, read a shorter sequence. The dropped
tokens' slots go back to the pool once the pass is launched.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor

from agentserve.core.pruning import stage_layers, stage_shares
from agentserve.engine.compat_pruning import Stack
from agentserve.engine.pruning.methods import choose
from agentserve.engine.pruning.targets import Chosen, Target, budget
from agentserve.kernels import received_attention, select_keep


@dataclass(eq=False)
class _State:
    """A target on its way through the layers."""

    target: Target
    start: int
    """Its first row in the batch as it is now."""
    rows: Tensor  # int64 [rows]: its rows that are left, as counted at first
    candidates: Tensor  # int64 [all]: rows of the tokens to choose from, as counted at first
    groups: Tensor  # int32 [all]
    kept: Tensor  # int64 [n]: indices into candidates
    embedded: tuple[Tensor, Tensor]  # [all, width], [voices, width]
    stages: dict[int, tuple[int, float]] = field(default_factory=dict)
    """Before layer -> (stage, share of the candidates that is left behind it)."""
    attention: Tensor | None = None  # float32 [n]: summed over the layers so far
    slots: list[Tensor] = field(default_factory=list)
    """Of what was dropped."""

    @property
    def length(self) -> int:
        """Of its sequence as it is now."""
        return self.target.extent.prefix + len(self.rows)

    @property
    def places(self) -> Tensor:
        """Where the candidates that are left are among the rows that are left, int64 [n]."""
        return torch.searchsorted(self.rows, self.candidates[self.kept])

    @property
    def voices(self) -> Tensor:
        """The rows of text behind the last candidate, as they are now, int64."""
        count = self.target.voices
        return torch.arange(len(self.rows) - count, len(self.rows), device=self.rows.device)


def run(stack: Stack, targets: list[Target]) -> list[Chosen]:
    """Run all layers; what was chosen of each target, whose rows have left the batch."""
    states = [_state(stack, target) for target in targets]
    for layer in range(stack.depth):
        due = [state for state in states if layer in state.stages]
        if due:
            _stage(stack, states, due, layer)
        scored = [state for state in states if _wants_scores(state)]
        wanted = any(layer + 1 in state.stages for state in states) or bool(scored)
        stack.run(layer, with_queries=wanted)
        for state in scored:
            assert state.target.eviction is not None
            rows = state.voices[-state.target.eviction.rows :]
            received = _received(stack, state, stack.queries(layer), layer, rows)
            state.attention = received if state.attention is None else state.attention + received
    return [
        Chosen(
            kept=state.kept,
            scores=None if state.attention is None else state.attention / stack.depth,
            slots=torch.cat(state.slots) if state.slots else None,
        )
        for state in states
    ]


def _state(stack: Stack, target: Target) -> _State:
    device = stack.embeddings.device
    candidates = torch.from_numpy(target.candidates).to(device)
    first, last = target.start, target.start + target.extent.rows
    pruning = target.pruning
    stages: dict[int, tuple[int, float]] = {}
    if pruning is not None and pruning.ratio > 0:
        layers = stage_layers(pruning, stack.depth)
        stages = dict(zip(layers, enumerate(stage_shares(pruning, len(layers))), strict=True))
    return _State(
        target=target,
        start=target.start,
        rows=torch.arange(target.extent.rows, device=device),
        candidates=candidates,
        groups=torch.from_numpy(target.groups.astype(np.int32)).to(device),
        kept=torch.arange(len(candidates), device=device),
        embedded=(
            stack.embeddings[first + candidates],
            stack.embeddings[last - target.voices : last],
        ),
        stages=stages,
    )


def _wants_scores(state: _State) -> bool:
    eviction = state.target.eviction
    return eviction is not None and eviction.method in ("attention", "look_m")


def _stage(stack: Stack, states: list[_State], due: list[_State], layer: int) -> None:
    stack.pause()
    gone: dict[int, int] = {}
    left = []
    begin = 0
    for state in sorted(due, key=lambda state: state.start):
        view = _View(stack, state, layer)
        verdict = choose(state.target.pruning, view)
        places = state.places
        if verdict.merged is not None:
            which, merged = verdict.merged
            stack.replace(state.start + places[which], merged)
        stays = torch.ones(len(state.rows), dtype=torch.bool, device=state.rows.device)
        stays[places] = False
        stays[places[verdict.kept]] = True
        rows = torch.nonzero(stays).squeeze(1)
        left += [torch.arange(begin, state.start, device=rows.device), state.start + rows]
        begin = state.start + len(state.rows)
        count = len(state.rows) - len(rows)
        gone[state.target.index] = count
        prefix = state.target.extent.prefix
        slots = stack.pools.slots(state.target.request, state.length)[prefix:]
        state.slots.append(slots[~stays].clone())
        state.rows = state.rows[rows]
        state.kept = state.kept[verdict.kept]
        if state.attention is not None:
            state.attention = state.attention[verdict.kept]
    total = stack.positions.shape[1]
    left.append(torch.arange(begin, total, device=stack.positions.device))
    dropped = any(gone.values())
    if dropped:
        slots = stack.drop(torch.cat(left), gone)
        for state in sorted(states, key=lambda state: state.start):
            before = sum(
                count
                for other in states
                if other.target.start < state.target.start
                for count in [gone.get(other.target.index, 0)]
            )
            state.start -= before
            own = slots[state.start : state.start + len(state.rows)]
            stack.pools.set_slots(state.target.request, state.target.extent.prefix, own)
    stack.resume(dropped=dropped)


def _received(
    stack: Stack, state: _State, queries: Tensor, layer: int, rows: Tensor
) -> Tensor:  # float32 [n]
    """Attention that the candidates get from ``rows`` (int64, counted from the target's first)."""
    device = queries.device
    prefix, length = state.target.extent.prefix, state.length

    def whole(*values: int) -> Tensor:
        return torch.tensor(values, dtype=torch.int32, device=device)

    keys = stack.pools.keys(layer)
    scores = received_attention(
        queries[state.start + rows],
        keys[:, None].to(queries.dtype) if keys.dtype != queries.dtype else keys[:, None],
        whole(0, len(rows)),
        (prefix + rows).int(),
        whole(0, length),
        stack.pools.slots(state.target.request, length).int(),
        whole(1),
        scale=stack.scale(layer),
    )
    return scores[prefix + state.places]


class _View:
    """What a method looks at; see methods.View."""

    def __init__(self, stack: Stack, state: _State, layer: int) -> None:
        self._stack, self._state, self._layer = stack, state, layer
        self.stage, share = state.stages[layer]
        pruning = state.target.pruning
        assert pruning is not None
        sizes = [len(item.tokens) for item in state.target.change.open]
        self.keep, self._least = budget(len(state.candidates), share, sizes, pruning.min_tokens)
        self.keep = min(self.keep, len(state.kept))
        self.voices = state.target.voices

    def attention(self, rows: Tensor) -> Tensor:
        layer = self._layer - 1
        rows = self._state.voices[rows.to(self._state.rows.device)]
        return _received(self._stack, self._state, self._stack.queries(layer), layer, rows)

    def next_attention(self) -> Tensor:
        queries = self._stack.next_queries(self._layer)
        return _received(self._stack, self._state, queries, self._layer, self._state.voices[-1:])

    def states(self) -> Tensor:
        return self._stack.states()[self._state.start + self._state.places]

    def embeddings(self) -> tuple[Tensor, Tensor]:
        visual, text = self._state.embedded
        return visual, text

    def top(self, scores: Tensor, keep: int) -> Tensor:
        state, device = self._state, scores.device
        kept, _ = select_keep(
            scores,
            torch.tensor([0, len(scores)], dtype=torch.int32, device=device),
            torch.tensor([keep], dtype=torch.int32, device=device),
            groups=state.groups[state.kept],
            group_min=torch.from_numpy(self._least.astype(np.int32)).to(device),
        )
        return kept
