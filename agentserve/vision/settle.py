"""What of a mosaic session is live: each place of the screen belongs to the part that came last.

``settle`` is the one definition of it. The engine compacts its cache to it after an answer, the
next plan begins with it, and a rebuilt prompt is made of it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import numpy as np

from agentserve.core.item_urls import keep_set, kept_tokens
from agentserve.core.plans import Piece, Seal, TextPiece, VisualItem


def is_part(piece: Piece) -> bool:
    """Whether a piece is a part of a screen, as opposed to text and ordinary pictures."""
    return isinstance(piece, VisualItem) and piece.screen is not None


def token_mask(item: VisualItem, grid: int) -> np.ndarray:
    """bool [rows, columns] of the item's box on the token grid: which tokens are in the prompt."""
    rows, columns = item.size.height // grid, item.size.width // grid
    if item.keep is None:
        return np.ones((rows, columns), bool)
    mask = np.zeros(rows * columns, bool)
    mask[kept_tokens(item.keep, rows * columns)] = True
    return mask.reshape(rows, columns)


def place_of(item: VisualItem, grid: int) -> tuple[slice, slice]:
    """The item's box as an index into the token grid of its screen."""
    assert item.box is not None
    top, left = item.box.y // grid, item.box.x // grid
    return (
        slice(top, top + item.box.height // grid),
        slice(left, left + item.box.width // grid),
    )


def coverage(items: Sequence[VisualItem], grid: int) -> np.ndarray:
    """int64 [rows, columns] of the screen: how many tokens of the parts lie on each place."""
    screen = items[0].screen
    assert screen is not None
    count = np.zeros((screen.height // grid, screen.width // grid), np.int64)
    for item in items:
        count[place_of(item, grid)] += token_mask(item, grid)
    return count


def settle(pieces: Sequence[Piece], grid: int) -> list[Piece]:
    """The pieces without the tokens that parts behind them cover; grid in px.

    A part that lost all its tokens is gone, one that lost some has a smaller keep set. The markers
    of a screen stay as long as any of its parts does. What is left has its KV from before, which
    was computed with the removed in sight: the first token behind a removal gets a seal, and so
    does a part that lost tokens of its own. Its history covers all pieces so far, the earlier seals
    in them included, so that a key says all that its KV depends on. Between screens there is text.

    Settling what is settled changes nothing.
    """
    settled: list[Piece] = []
    history = hashlib.sha256()
    removed = False
    owed: VisualItem | None = None  # had its screen's first marker, and is gone
    for piece, live in zip(pieces, _live_masks(pieces, grid), strict=True):
        history.update(piece.model_dump_json(exclude={"text", "shared"}).encode() + b"\n")
        changes: dict[str, object] = {}
        if isinstance(piece, VisualItem) and live is not None:
            removed = True
            if not live.any():
                owed = piece if piece.begin else owed
                if piece.end and owed is None:
                    handed = {"end": piece.end, "end_seal": Seal(history=history.hexdigest())}
                    settled[-1] = settled[-1].model_copy(update=handed)
                    removed = False
                elif piece.end:
                    owed = None
                continue
            kept = np.flatnonzero(live)
            changes |= {"keep": keep_set(kept, live.size), "tokens": len(kept)}
        if owed is not None:
            changes |= {"begin": owed.begin, "position": owed.position}
            owed = None
        if removed:
            changes["seal"] = Seal(history=history.hexdigest())
            removed = False
        settled.append(piece.model_copy(update=changes) if changes else piece)
    return settled


def _live_masks(pieces: Sequence[Piece], grid: int) -> list[np.ndarray | None]:
    """For each piece the mask of its live tokens; None when it loses nothing."""
    masks: list[np.ndarray | None] = []
    covered: np.ndarray | None = None
    for piece in reversed(pieces):
        if isinstance(piece, TextPiece) or piece.screen is None:
            masks.append(None)
            continue
        if covered is None:
            screen = piece.screen
            covered = np.zeros((screen.height // grid, screen.width // grid), bool)
        place, mask = place_of(piece, grid), token_mask(piece, grid)
        live = mask & ~covered[place]
        masks.append(None if live.sum() == mask.sum() else live)
        covered[place] |= mask
    masks.reverse()
    return masks
