"""Regions of which not all tokens are sent, and cells of which not all are left.

A region is thinned when it is sent, an item by an engine that prunes it or evicts from it; that
leaves cells *thin*: fewer live tokens than they could have. Thin cells are sent again when

    the caller asks           every thin cell, in full
    an action aimed at one    that one, in full
    the screen is a key one   like all other cells: thinned as any new region

What is thin is known from the held parts alone, whatever made them smaller.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from agentserve.core.blobs import sha256_of
from agentserve.core.item_urls import keep_set
from agentserve.core.plans import Selection, Thinning, VisualItem
from agentserve.core.pruning import METHODS, Compression, Pruning, kept_count
from agentserve.vision.cells import part
from agentserve.vision.pruning import View, choose, works_on_pixels
from agentserve.vision.regions import Region
from agentserve.vision.settle import live_tokens


@dataclass(frozen=True)
class Wishes:
    """What a turn asks of its screen, beyond what changed."""

    compression: Compression = Compression()
    """Of new regions. What needs more than pixels is the engine's: here its items are marked."""
    resend_thin: bool = False
    """Whether every thin cell is sent again. On a key screen, and where the prompt begins anew,
    nothing comes of it: ask again."""
    aimed: Sequence[tuple[int, int]] = ()
    """(x, y) that the last action aimed at, in model px, inside the screen."""


def thin_cells(parts: Sequence[VisualItem], cell: int, grid: int) -> np.ndarray:
    """bool [rows, columns] of the screen's cells: which have fewer live tokens than they could.
    ``parts`` are settled, at least one; ``cell`` and ``grid`` are edges in px."""
    live = live_tokens(parts, grid)
    rows, columns = (np.arange(0, side, cell // grid) for side in live.shape)

    def per_cell(counts: np.ndarray) -> np.ndarray:
        return np.add.reduceat(np.add.reduceat(counts, rows, axis=0), columns, axis=1)

    return per_cell(live) < per_cell(np.ones_like(live))


def wanted_again(wishes: Wishes, parts: Sequence[VisualItem], cell: int, grid: int) -> np.ndarray:
    """The thin cells that are sent again on a screen that is no key screen, like ``thin_cells``."""
    thin = thin_cells(parts, cell, grid)
    wanted = np.full_like(thin, wishes.resend_thin)
    for x, y in wishes.aimed:
        wanted[y // cell, x // cell] = True
    return thin & wanted


def thin_out(
    region: Region, pruning: Pruning | None, pixels: np.ndarray, shown: np.ndarray | None, grid: int
) -> Region:
    """The region with the tokens that a method on pixels leaves of it; it covers what it kept.

    ``pixels`` is the screen, ``shown`` the one before or None, both uint8 [height, width, 3].
    """
    if pruning is None or region.in_full or not works_on_pixels(pruning):
        return region
    sent = np.zeros((region.box.height // grid, region.box.width // grid), bool)
    sent.flat[slice(None) if region.keep is None else region.keep] = True
    before = None if shown is None else part(shown, region.box)
    stays = choose(pruning, View(part(pixels, region.box), grid, sent, before))
    if np.array_equal(stays, sent):
        return region
    return replace(region, keep=np.flatnonzero(stays), covers=np.flatnonzero(sent))


def marked(item: VisualItem, region: Region, compression: Compression) -> VisualItem:
    """The region's item, marked when the engine is to choose from its tokens.

    By the text around it never from what sessions share: they would depend on each other's text.
    """
    if region.in_full:
        return item
    pruning, changes = compression.pruning, {}
    if pruning is not None and METHODS[pruning.method].where == "features":
        every = keep_set(np.arange(item.tokens), item.tokens)
        changes = {
            "selection": Selection(pruning=pruning, sent=item.keep),
            "tokens": kept_count(pruning, item.tokens),
            "covers": item.keep or every,  # said now: ``keep`` will be another
        }
    if compression.thins and not region.shared:
        by = sha256_of(compression.model_dump_json().encode())
        changes["thinning"] = Thinning(by=by)
    return item.model_copy(update=changes) if changes else item
