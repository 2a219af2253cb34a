"""The methods between the vision encoder and the language model: pure functions of its output.

Each sees one picture, so what it keeps depends on nothing else, and sessions may share it. How many
tokens stay is known before, without looking at the device: ``kept_count``.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from agentserve.core.pruning import Pruning, kept_count
from agentserve.kernels import select_keep, similarity_merge

ENERGY = 0.9
"""Share of the squared singular values that the dominant directions of ``svd`` have."""


def choose_features(
    pruning: Pruning,
    features: Tensor,  # [n, d], float32, float16 or bfloat16
) -> tuple[Tensor, Tensor]:  # int64 [kept_count(pruning, n)], features' dtype [the same, d]
    """Which tokens of one picture stay, ascending, and what the language model gets for them.

    ``features`` are the vision encoder's output for the n tokens to choose from, in raster order.
    ``tome`` gives the means of merged tokens, the others rows of ``features`` as they are. Raises
    KeyError for a method that works elsewhere.
    """
    return _METHODS[pruning.method](features, kept_count(pruning, len(features)))


def merges(pruning: Pruning) -> bool:
    """Whether the kept tokens stand for others as well: they are no rows of the features."""
    return pruning.method == "tome"


def tome(features: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """Similar tokens are merged (Bolya et al., Token Merging, arXiv 2210.09461, section 3).

    The paper merges a few tokens in every layer of the encoder, by the similarity of their keys.
    Here the encoder stays as it is and its output is merged, in rounds that halve it at most, by
    the similarity of the features. A merged token has the mean of all that went into it, and the
    position of the one that the last of them went to.
    """
    kept = torch.arange(len(features), device=features.device)
    sizes = torch.ones(len(features), device=features.device)
    while len(kept) > count:
        merges = min(len(kept) - count, len(kept) // 2)
        features, sizes, places = similarity_merge(features, sizes, merges)
        kept = kept[places]
    return kept, features


def svd(features: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """The highest leverage scores stay (SVD-Prune, arXiv 2604.11530).

    With X = U S V^T the features and k the number of singular values that have ``ENERGY`` of the
    squares' sum, token i scores ||U[i, :k]||^2: its part in the dominant directions. U comes from
    X X^T, whose eigenvectors its columns are: n is mostly smaller than d.
    """
    x = features.double()
    values, vectors = torch.linalg.eigh(x @ x.T)  # ascending
    energy = values.clamp(min=0).flip(0)
    dominant = energy.cumsum(0) - energy < ENERGY * energy.sum()
    return _best(features, (vectors.flip(1).square() * dominant).sum(dim=1), count)


def saliency(features: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """What a global query attends to stays, after FasterVLM (Zhang et al., arXiv 2412.01818,
    section 3), which ranks patches by the attention of the encoder's [CLS] token.

    Qwen's encoders have no [CLS]. In its stead stands the mean of all tokens: the picture's global
    descriptor where there is no other. Its attention is softmax(X mean / sqrt(d)) over the tokens,
    a single head without projections; softmax and scale keep the order, so that the products are
    the scores. X is not normalised: attention sees how long a key is, and encoders put what is
    global into a few long tokens (Darcet et al., arXiv 2309.16588), where [CLS] finds it. The
    weakness: the mean of a nearly empty screen is a background token, and so is then what stays.
    """
    x = features.float()
    return _best(features, x @ x.mean(dim=0), count)


def _best(features: Tensor, scores: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """The ``count`` tokens of the highest scores, [n]."""
    ends = torch.tensor([0, len(scores)], dtype=torch.int32, device=scores.device)
    keep = torch.tensor([count], dtype=torch.int32, device=scores.device)
    kept, _ = select_keep(scores.float(), ends, keep)
    return kept, features[kept]


_METHODS: dict[str, Callable[[Tensor, int], tuple[Tensor, Tensor]]] = {
    "tome": tome,
    "svd": svd,
    "saliency": saliency,
}
