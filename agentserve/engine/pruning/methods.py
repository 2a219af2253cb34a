"""The methods inside the language model: each looks at a stage and says which candidates stay.

A stage lies between two layers. Its *candidates* are the visual tokens of a request that are still
there and may go; its *voices* are the rows of text behind the last of them. Positions stay what
they were: a token that is left keeps its place on the screen.

The papers leave the dropped tokens' KV in the layers before a stage. Here it goes from all layers
once the prompt is computed, so that a sequence has one length; what the answer then no longer sees
in the first layers is measured by ``agentserve bench pruning``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from agentserve.core.pruning import Pruning
from agentserve.engine.pruning.cluster import density_peaks


class View(Protocol):
    """What a method may look at; n candidates of a request."""

    keep: int
    """How many stay."""
    stage: int
    """From 0."""
    voices: int
    """Rows of text behind the last candidate, at least 1."""

    def attention(self, rows: Tensor) -> Tensor:
        """Softmax attention that the candidates receive in the layer before, float32 [n]: the mean
        over all query heads and the ``rows``, int64, counted from the first voice."""

    def next_attention(self) -> Tensor:
        """The same of the last row, float32 [n], by the queries and keys that the next layer makes
        of the states before it."""

    def states(self) -> Tensor:
        """The candidates' hidden states before the next layer, [n, width]."""

    def embeddings(self) -> tuple[Tensor, Tensor]:
        """What the first layer got: of all candidates that the request had [all, width], and of the
        voices [voices, width]."""

    def top(self, scores: Tensor, keep: int) -> Tensor:
        """The ``keep`` best, of every item at least its minimum, int64 ascending."""


@dataclass(frozen=True)
class Verdict:
    """What a method says."""

    kept: Tensor  # int64, ascending
    merged: tuple[Tensor, Tensor] | None = None
    """Candidates, and the hidden states [m, width] that they go on with."""


def choose(pruning: Pruning, view: View) -> Verdict:
    """Apply the stage of a method inside the model."""
    return _METHODS[pruning.method](pruning, view)


def fastv(pruning: Pruning, view: View) -> Verdict:
    """The most attended by the last rows (Chen et al., An Image is Worth 1/2 Tokens After Layer 2,
    arXiv 2403.06764, section 4.1; by one row, as its authors' program does)."""
    rows = torch.arange(max(0, view.voices - pruning.rows), view.voices)
    return Verdict(view.top(view.attention(rows), view.keep))


def pyramid_drop(_: Pruning, view: View) -> Verdict:
    """The most attended by the last row, in stages (Xing et al., PyramidDrop, arXiv 2410.17247,
    section 3.2: by the attention that the next layer would pay)."""
    return Verdict(view.top(view.next_attention(), view.keep))


_ATTENTION_SHARES = (0.12, 0.4)
_CANDIDATE_SHARE = 1.2


def btp(_: Pruning, view: View) -> Verdict:
    """First diverse ones, later attended ones (Zhang et al., Balanced Token Pruning,
    arXiv 2505.22038, section 4). At the first stages a share of the budget, 12 and 40 %, goes to
    the most attended and the rest to those that differ most from what is chosen; from the third
    on the budget goes to the most attended, of which a fifth more are looked at, and those come
    first that lie early: attention favours what is near. The paper's last stage, which drops all,
    is left out: what its last but one keeps is what stays."""
    attention = view.attention(torch.tensor([view.voices - 1]))
    if view.stage < len(_ATTENTION_SHARES):
        seeds = max(1, int(view.keep * _ATTENTION_SHARES[view.stage]))
        return Verdict(_spread(view.states(), view.top(attention, seeds), view.keep, view))
    count = min(len(attention), int(_CANDIDATE_SHARE * view.keep))
    candidates = view.top(attention, count)
    scores = torch.full_like(attention, -1.0)
    scores[candidates] = attention[candidates] + 2.0 * (candidates < view.keep)
    return Verdict(view.top(scores, view.keep))


def _spread(states: Tensor, seeds: Tensor, keep: int, view: View) -> Tensor:
    """Add to ``seeds``, one by one, the candidate whose nearest chosen one is farthest (by cosine),
    until there are ``keep``."""
    directions = torch.nn.functional.normalize(states.float(), dim=-1)
    nearest = (directions @ directions[seeds].T).amax(dim=1)
    nearest[seeds] = torch.inf
    chosen = [seeds]
    for _ in range(keep - len(seeds)):
        farthest = nearest.argmin().reshape(1)
        chosen.append(farthest)
        nearest = torch.maximum(nearest, (directions @ directions[farthest].T).squeeze(1))
        nearest[farthest] = torch.inf
    scores = torch.zeros(len(states), device=states.device)
    scores[torch.cat(chosen)] = 1.0
    return view.top(scores, max(keep, len(seeds)))


_RECYCLED = 0.3
_CLUSTERS = 10


def sparsevlm(pruning: Pruning, view: View) -> Verdict:
    """The most attended by the text that matters to the picture (Zhang et al., SparseVLM,
    arXiv 2410.04417, sections 3.2 to 3.4).

    *Raters* are the voices whose mean similarity to the visual embeddings, a softmax over the
    voices, is above average. With ``adaptive`` a stage drops its share of what the raters'
    attention has beyond its rank. With ``recycle`` the best 30 % of the dropped are clustered
    (density peaks), a tenth as many clusters, and each cluster goes on as the sum of its tokens in
    the place of its centre; they count towards what stays."""
    visual, text = view.embeddings()
    rating = torch.softmax(visual.float() @ text.float().T, dim=-1).mean(dim=0)
    raters = torch.nonzero(rating > rating.mean()).squeeze(1)
    if not len(raters):  # all the same: one voice, say
        raters = torch.arange(len(rating), device=rating.device)
    keep = view.keep
    scores = view.attention(raters)
    if pruning.adaptive:
        matrix = torch.stack([view.attention(rater.reshape(1)) for rater in raters])
        redundant = len(scores) - int(torch.linalg.matrix_rank(matrix))
        keep = len(scores) - int(redundant * (len(scores) - keep) / len(scores))
    if not pruning.recycle:
        return Verdict(view.top(scores, keep))
    return _recycle(view, scores, keep)


def _recycle(view: View, scores: Tensor, keep: int) -> Verdict:
    #   candidates   │ kept by score │ recycled: 30 % of the rest │ gone │
    #   what stays   │ kept by score │ centres │
    dropped = len(scores) - keep
    centres = int(dropped * _RECYCLED) // _CLUSTERS
    if centres == 0 or centres >= keep:
        return Verdict(view.top(scores, keep))
    plain = view.top(scores, keep - centres)
    rest = scores.clone()
    rest[plain] = -1.0
    pool = torch.argsort(rest, descending=True, stable=True)[: int(dropped * _RECYCLED)]
    pool = pool.sort().values
    states = view.states()[pool].float()
    middle, cluster = density_peaks(states, centres)
    sums = torch.zeros(centres, states.shape[1], device=states.device)
    sums.index_add_(0, cluster, states)
    kept = torch.cat((plain, pool[middle])).sort().values
    return Verdict(kept, (pool[middle], sums))


_METHODS: dict[str, Callable[[Pruning, View], Verdict]] = {
    "fastv": fastv,
    "pyramid_drop": pyramid_drop,
    "btp": btp,
    "sparsevlm": sparsevlm,
}
