"""What of a mosaic session is live: each place of the screen belongs to the part that came last.

``settle`` is the one definition of it. The engine compacts its cache to it after an answer, the
next plan begins with it, and a rebuilt prompt is made of it.

A part *covers* places and *keeps* tokens on some of them: a pruned part still stands for all that
was sent. Places are taken over as covered, so that no place shows two screens; where nothing is
kept the screen is thin.

    sent      ████████
    covers    ████████      a newer part on the right half:   ████░░░░
    keeps     █ █ █ █                                         █ █
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from agentserve.core.item_urls import keep_set, kept_tokens
from agentserve.core.plans import Piece, Seal, TextPiece, VisualItem

_NO_KV: dict[str, Any] = {"text": True, "shared": True, "covers": True, "thinning": {"keep"}}
"""Fields that say nothing of what a piece's KV depends on, or that nobody knows when it is
computed: what stays of an item that is thinned is in its keep set afterwards."""


_UNKNOWN = _NO_KV | {"keep": True, "selection": {"done"}}
"""The same of an item whose keep set is chosen from the vision encoder's output."""


def is_part(piece: Piece) -> bool:
    """Whether a piece is a part of a screen, as opposed to text and ordinary pictures."""
    return isinstance(piece, VisualItem) and piece.screen is not None


def token_mask(item: VisualItem, grid: int) -> np.ndarray:
    """bool [rows, columns] of the item's box on the token grid: which tokens are in the prompt."""
    return _mask(item, item.keep, grid)


def covered_mask(item: VisualItem, grid: int) -> np.ndarray:
    """bool [rows, columns] of the item's box on the token grid: which places it stands for."""
    return _mask(item, item.keep if item.covers is None else item.covers, grid)


def thinned(item: VisualItem, stays: np.ndarray, grid: int) -> VisualItem:
    """The item with those of its tokens only that ``stays``, bool [rows, columns], marks, at least
    one. It covers what it covered."""
    kept = token_mask(item, grid) & stays
    return item.model_copy(update=_sets(kept, covered_mask(item, grid)))


def place_of(item: VisualItem, grid: int) -> tuple[slice, slice]:
    """The item's box as an index into the token grid of its screen."""
    assert item.box is not None
    top, left = item.box.y // grid, item.box.x // grid
    return (
        slice(top, top + item.box.height // grid),
        slice(left, left + item.box.width // grid),
    )


def coverage(items: Sequence[VisualItem], grid: int) -> np.ndarray:
    """int64 [rows, columns] of the screen: how many of the parts stand for each place."""
    return _count(items, [covered_mask(item, grid) for item in items], grid)


def live_tokens(items: Sequence[VisualItem], grid: int) -> np.ndarray:
    """int64 [rows, columns] of the screen: how many tokens of the parts lie on each place."""
    return _count(items, [token_mask(item, grid) for item in items], grid)


@dataclass(frozen=True, eq=False)
class _Live:
    """What newer parts leave of one, bool [rows, columns] of its box."""

    kept: np.ndarray
    covers: np.ndarray
    lost: bool
    """Whether tokens are gone, and not only places that it covered."""


def settle(pieces: Sequence[Piece], grid: int) -> list[Piece]:
    """The pieces without the tokens that parts behind them cover; grid in px.

    A part that lost all its tokens is gone, whatever it covers beyond them; one that lost some has
    a smaller keep set. The markers of a screen stay as long as any of its parts does. What is left
    has its KV from before, which was computed with the removed in sight: the first token behind a
    removal gets a seal, and so does a part that lost tokens of its own. Its history covers all
    pieces so far, the earlier seals in them included, so that a key says all that its KV depends
    on. Between screens there is text.

    Settling what is settled changes nothing.
    """
    settled: list[Piece] = []
    history = hashlib.sha256()
    removed = False
    owed: VisualItem | None = None  # had its screen's first marker, and is gone
    left = [_thinned(piece, grid) for piece in pieces]
    for before, piece, live in zip(pieces, left, _live_parts(left, grid), strict=True):
        history.update(before.model_dump_json(exclude=_unknown(before)).encode() + b"\n")
        changes: dict[str, object] = {}
        if isinstance(before, VisualItem) and before.thinning is not None:
            removed = True
        if isinstance(piece, VisualItem) and live is not None:
            removed = removed or live.lost
            if not live.kept.any():
                owed = piece if piece.begin else owed
                if piece.end and owed is None:
                    handed = {"end": piece.end, "end_seal": Seal(history=history.hexdigest())}
                    settled[-1] = settled[-1].model_copy(update=handed)
                    removed = False
                elif piece.end:
                    owed = None
                continue
            changes |= _sets(live.kept, live.covers)
        if owed is not None:
            changes |= {"begin": owed.begin, "position": owed.position}
            owed = None
        if removed:
            changes["seal"] = Seal(history=history.hexdigest())
            removed = False
        settled.append(piece.model_copy(update=changes) if changes else piece)
    return settled


def _unknown(piece: Piece) -> dict[str, Any]:
    selected = isinstance(piece, VisualItem) and piece.selection is not None
    return _UNKNOWN if selected else _NO_KV


def _thinned(piece: Piece, grid: int) -> Piece:
    if not isinstance(piece, VisualItem) or piece.thinning is None:
        return piece
    item = piece.model_copy(update={"thinning": None})
    keep = piece.thinning.keep
    return item if keep is None else thinned(item, _mask(item, keep, grid), grid)


def _live_parts(pieces: Sequence[Piece], grid: int) -> list[_Live | None]:
    """What is live of each piece; None when newer parts cover nothing of it."""
    parts: list[_Live | None] = []
    covered: np.ndarray | None = None
    for piece in reversed(pieces):
        if isinstance(piece, TextPiece) or piece.screen is None:
            parts.append(None)
            continue
        if covered is None:
            screen = piece.screen
            covered = np.zeros((screen.height // grid, screen.width // grid), bool)
        place, covers = place_of(piece, grid), covered_mask(piece, grid)
        free = ~covered[place]
        kept = token_mask(piece, grid)
        live = _Live(kept & free, covers & free, lost=not free[kept].all())
        parts.append(None if free[covers].all() else live)
        covered[place] |= covers
    parts.reverse()
    return parts


def _mask(item: VisualItem, bitmap: str | None, grid: int) -> np.ndarray:
    rows, columns = item.size.height // grid, item.size.width // grid
    if bitmap is None:
        return np.ones((rows, columns), bool)
    mask = np.zeros(rows * columns, bool)
    mask[kept_tokens(bitmap, rows * columns)] = True
    return mask.reshape(rows, columns)


def _sets(kept: np.ndarray, covers: np.ndarray) -> dict[str, object]:
    """The fields of an item that say which tokens it keeps and covers, bool [rows, columns]."""
    same = np.array_equal(kept, covers)
    return {
        "keep": None if kept.all() else keep_set(np.flatnonzero(kept), kept.size),
        "covers": None if same else keep_set(np.flatnonzero(covers), covers.size),
        "tokens": int(kept.sum()),
    }


def _count(items: Sequence[VisualItem], masks: Sequence[np.ndarray], grid: int) -> np.ndarray:
    screen = items[0].screen
    assert screen is not None
    count = np.zeros((screen.height // grid, screen.width // grid), np.int64)
    for item, mask in zip(items, masks, strict=True):
        count[place_of(item, grid)] += mask
    return count
