"""Which of a turn's visual tokens stay in the cache once it is answered.

What is gone from the prompt by then is gone; of the rest, each of these chooses the share that is
asked for, and at least one token of every item.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from agentserve.core.pruning import Eviction
from agentserve.kernels import select_keep


def by_attention(eviction: Eviction) -> bool:
    """Whether it goes by the attention that tokens got while their prompt was computed."""
    return eviction.method in ("attention", "look_m")


def evict(
    eviction: Eviction,
    kept: np.ndarray,  # int64 [n], ascending: candidates that are left
    groups: np.ndarray,  # int64 [all]: of each candidate which item it is of
    scores: Tensor | None,  # float32 [n]
) -> np.ndarray | None:  # int64, a part of kept
    """None: it goes by attention, and there is none.

    ``attention`` keeps what the prompt's last rows looked at most, over all layers (Li et al.,
    SnapKV, arXiv 2404.14469, section 4, without its pooling). ``look_m`` keeps the same: text
    before pictures, and of these the most attended (Wan et al., LOOK-M, arXiv 2406.18139,
    section 3.2); what it drops is merged into what it keeps. ``vtw`` withdraws all (Lin et al.,
    Visual Tokens Withdrawal, arXiv 2405.05803) but the first and the last token of an item.
    """
    budget = len(groups) - int(len(groups) * (1 - eviction.keep) + 1e-9)
    present = groups[kept]
    if eviction.method == "vtw":
        first = np.diff(present, prepend=-1) != 0
        last = np.diff(present, append=-1) != 0
        return kept[first | last]
    if eviction.method == "uniform":
        spaced = (np.arange(min(budget, len(kept))) + 0.5) * len(kept) / min(budget, len(kept))
        scores = torch.zeros(len(kept))
        scores[torch.from_numpy(spaced.astype(np.int64))] = 1.0
    elif eviction.method == "random":
        scores = torch.zeros(len(kept))  # ties are broken by a hash
    elif scores is None:
        return None
    count = int(groups.max()) + 1
    chosen, _ = select_keep(
        scores,
        torch.tensor([0, len(kept)], dtype=torch.int32, device=scores.device),
        torch.tensor([budget], dtype=torch.int32, device=scores.device),
        groups=torch.from_numpy(present.astype(np.int32)).to(scores.device),
        group_min=torch.ones(count, dtype=torch.int32, device=scores.device),
    )
    return kept[chosen.cpu().numpy()]
