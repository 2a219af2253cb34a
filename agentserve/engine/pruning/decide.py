"""What of a request's open items stays, once its answer is complete."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from agentserve.core.item_urls import keep_set
from agentserve.engine.eviction.change import Change
from agentserve.engine.pruning.book import Entry
from agentserve.engine.pruning.evict import evict
from agentserve.engine.pruning.targets import split


@dataclass(frozen=True, eq=False)
class Decision:
    change: Change
    """Of the whole prompt: nothing in it is open any more."""
    gone: np.ndarray
    """Tokens of the prompt that have left its row already, int64, ascending."""
    merged: tuple[np.ndarray, np.ndarray] | None
    """Tokens of the prompt that leave now, and those into which their KV is merged."""
    keeps: tuple[str, ...]
    """Of each open item the keep set that is left, as ``VisualItem`` has it."""
    reason: str | None
    """Why something was not chosen as it was asked for."""


def decide(entry: Entry) -> Decision:
    """Waits for the device."""
    change, chosen = entry.change, entry.chosen
    tokens = np.concatenate([item.start + np.asarray(item.tokens) for item in change.open])
    sizes = [len(item.tokens) for item in change.open]
    kept = np.arange(len(tokens)) if chosen is None else chosen.kept.cpu().numpy()
    gone = np.delete(tokens, kept)
    reason, merged = entry.reason, None
    eviction = change.compression.eviction
    if eviction is not None:
        groups = np.repeat(np.arange(len(sizes)), sizes)
        left = evict(eviction, kept, groups, None if chosen is None else chosen.scores)
        if left is not None:
            leaving = np.setdiff1d(kept, left)
            if eviction.method == "look_m" and len(leaving):
                merged = (tokens[leaving], tokens[left])
            kept = left
    parts = split(kept, change)
    return Decision(
        change=change.chosen(parts),
        gone=gone,
        merged=merged,
        keeps=tuple(
            keep_set(np.asarray(item.raster)[part], item.box[2] * item.box[3])
            for item, part in zip(change.open, parts, strict=True)
        ),
        reason=reason,
    )
