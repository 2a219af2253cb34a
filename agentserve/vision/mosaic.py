"""The policy ``mosaic``: a session is one screen whose cells are refreshed as they change.

The prompt only grows: a key screen, then text and what changed, turn by turn. A part that is
covered by a newer one is still in the prompt of the turn that brings the newer one; it leaves the
cache when that turn is answered (see settle). A key screen is the first screen of a session, or one
on which nearly everything changed: it is sent whole, in its place, and supersedes all.

Cells of which pruning left too little are sent again when something asks for them (see thinning).

Only at a limit does the prompt begin anew: the text so far with fresh positions, then a key screen.
That is a declared move.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from agentserve.core.blobs import sha256_of
from agentserve.core.item_urls import keep_set
from agentserve.core.plans import (
    Box,
    Piece,
    Plan,
    Sha256,
    TextPiece,
    VisualItem,
    next_position,
    num_tokens,
)
from agentserve.core.screens import Size
from agentserve.core.sessions import Positions, VisionContext
from agentserve.vision.cells import CutScreen, part, quick_png
from agentserve.vision.layouts import Layout
from agentserve.vision.policies import MARKER_TOKENS, does_not_fit
from agentserve.vision.regions import (
    Region,
    changed_regions,
    first_regions,
    on_tokens,
    place,
    reuse_moved,
)
from agentserve.vision.scroll import find_scroll
from agentserve.vision.settle import coverage, covered_mask, is_part, settle, token_mask
from agentserve.vision.thinning import Wishes, marked, thin_out, wanted_again

KEY_SHARE = 0.9
"""From this share of changed tokens on, the whole screen is sent: hardly more, and of one piece."""
SCROLL_SHARE = 0.1
"""Below this share of changed tokens nobody looks for a scroll: it could save next to nothing."""


@dataclass(frozen=True)
class MosaicSettings:
    """How a session's screens are sent."""

    grid: int
    """Edge of a token, in px."""
    positions: Positions
    context: VisionContext


@dataclass(frozen=True)
class Limits:
    """Where a prompt begins anew."""

    tokens: int
    """Tokens that a prompt's pieces may take, the new screen included."""
    positions: int
    """Text positions that they may take."""
    turns: int | None = None
    """Turns between two beginnings."""


@dataclass(frozen=True, eq=False)
class Held:
    """What a session's worker holds of it between two turns."""

    pieces: Sequence[Piece] = ()
    """Settled."""
    shown: CutScreen | None = None
    """The screen that the parts among them show. None: there are no parts, or its pixels are lost;
    the next screen is a key screen then."""
    since: int = 0
    """The turn with which the prompt began."""

    @property
    def parts(self) -> list[VisualItem]:
        return [piece for piece in self.pieces if is_part(piece)]


@dataclass(frozen=True)
class MosaicPlan:
    """A plan with what it needs and what it was made by."""

    plan: Plan
    pictures: dict[Sha256, bytes] = field(repr=False)
    """PNGs of the new items by their blob, without those that were sent before."""
    key: bool
    """Whether the whole screen is sent."""
    in_full: list[int]
    """Which items of the new screen are sent again because too little of them was left."""


def plan_mosaic(
    settings: MosaicSettings,
    held: Held,
    screen: CutScreen,
    turn: int,
    limits: Limits,
    layout: Layout | None = None,
    wishes: Wishes = Wishes(),
    picture: Sha256 | None = None,
) -> MosaicPlan:
    """The prompt of a session's turn, counted from 0. Pure.

    ``picture`` is the blob of a picture of the whole screen, if there is one that shows each pixel
    as it is: it then need not be made again. ``layout`` orders the first screen: only there do
    sessions have the same tokens before it.
    Raises InvalidRequest when text and a whole screen are over the limits.
    """
    regions, key = _regions(settings, held, screen, layout, wishes)
    prior = list(held.pieces)
    move = _limit_passed(settings, held, regions, screen.size, turn, limits)
    if move is not None:
        held = Held(_anew(prior, settings.grid), since=turn)
        regions, key = _regions(settings, held, screen, None, wishes)
        prior = list(held.pieces)
        if _limit_passed(settings, held, regions, screen.size, turn, limits):
            tokens = sum(region.tokens(settings.grid) for region in regions)
            raise does_not_fit(num_tokens(prior), tokens, min(limits.tokens, limits.positions))
    if picture is not None:
        regions = [_as_pictured(region, screen.size, picture) for region in regions]
    items, pictures = _items(settings, held, screen, regions, turn)
    plan = Plan(
        prior=prior,
        screen=[
            marked(item, region, wishes.compression)
            for item, region in zip(items, regions, strict=True)
        ],
        move=move,
        superseded=_superseded(prior, items, settings.grid),
    )
    in_full = [index for index, region in enumerate(regions) if region.in_full]
    return MosaicPlan(plan, pictures, key, in_full)


def held_after(
    plan: Plan, pieces: Sequence[Piece], held: Held, screen: CutScreen, turn: int, grid: int
) -> Held:
    """What the worker holds when ``pieces``, those of the program host's answer, are settled.

    A program need not show its screen: what it did not show has superseded nothing.
    """
    shown = any(is_part(piece) for piece in pieces)
    return Held(
        pieces=settle([*plan.prior, *pieces], grid),
        shown=screen if shown else held.shown,
        since=turn if plan.move else held.since,
    )


def _regions(
    settings: MosaicSettings,
    held: Held,
    screen: CutScreen,
    layout: Layout | None,
    wishes: Wishes,
) -> tuple[list[Region], bool]:
    """What is sent, in order, and whether it is a key screen."""
    regions, key = _whole_regions(settings, held, screen, layout, wishes)
    # Where nothing is held there is no screen before: so with all regions that sessions share.
    shown = held.shown.pixels if held.shown is not None and held.parts else None
    pruning, grid = wishes.compression.pruning, settings.grid
    return [thin_out(each, pruning, screen.pixels, shown, grid) for each in regions], key


def _whole_regions(
    settings: MosaicSettings,
    held: Held,
    screen: CutScreen,
    layout: Layout | None,
    wishes: Wishes,
) -> tuple[list[Region], bool]:
    """The same before any is thinned."""
    context, grid = settings.context, settings.grid
    if held.shown is None or not held.parts:
        if held.pieces:
            layout = None
        return first_regions(context, screen, layout or Layout(), grid), True
    cells = screen.changed_since(held.shown)
    share = on_tokens(cells, screen, grid).mean()
    key = bool(share >= KEY_SHARE)
    again = np.zeros_like(cells) if key else wanted_again(wishes, held.parts, screen.cell, grid)
    regions = changed_regions(context, screen, (cells | key) & ~again, grid)
    if context == "cell" and share >= SCROLL_SHARE:
        scroll = find_scroll(held.shown.pixels, screen.pixels, grid)
        if scroll is not None:
            regions = reuse_moved(regions, _whole_pictures(held, grid), scroll, screen.size, grid)
    resent = changed_regions(context, screen, again, grid)
    return [*regions, *(replace(region, in_full=True) for region in resent)], key


def _whole_pictures(held: Held, grid: int) -> list[tuple[Box, Sha256]]:
    """The held pictures of which nothing is superseded: all of their pixels are on the screen."""
    return [
        (item.box, item.blob)
        for item in held.parts
        if item.box is not None and covered_mask(item, grid).all()
    ]


def _limit_passed(
    settings: MosaicSettings,
    held: Held,
    regions: Sequence[Region],
    screen: Size,
    turn: int,
    limits: Limits,
) -> str | None:
    """The limit that the prompt would pass, by the name of the move that follows from it."""
    grid = settings.grid
    tokens = sum(region.tokens(grid) for region in regions) + MARKER_TOKENS
    if num_tokens(list(held.pieces)) + tokens > limits.tokens:
        return "context"
    positions = MARKER_TOKENS
    if settings.positions == "turn" or not held.parts:
        positions += max(screen.width, screen.height) // grid
    if next_position(held.pieces, grid) + positions > limits.positions:
        return "positions"
    if limits.turns is not None and turn - held.since >= limits.turns:
        return "turns"
    return None


def _anew(pieces: Sequence[Piece], grid: int) -> list[Piece]:
    """The text of the pieces at fresh positions: nothing was computed under anything else."""
    texts: list[Piece] = []
    for piece in pieces:
        if isinstance(piece, TextPiece):
            position = next_position(texts[-1:], grid)
            texts.append(piece.model_copy(update={"position": position, "seal": None}))
    return texts


def _as_pictured(region: Region, screen: Size, picture: Sha256) -> Region:
    whole = (region.box.width, region.box.height) == (screen.width, screen.height)
    return replace(region, blob=picture) if whole else region


def _items(
    settings: MosaicSettings,
    held: Held,
    screen: CutScreen,
    regions: Sequence[Region],
    turn: int,
) -> tuple[list[VisualItem], dict[Sha256, bytes]]:
    """The regions as items; the program host completes them with markers and positions."""
    base = time = None
    if settings.positions == "session" and held.parts:
        base = held.parts[0].base
        assert base is not None
        time = base + turn - held.since
    items, pictures = [], {}
    for region in regions:
        blob = region.blob
        if blob is None:
            png = quick_png(part(screen.pixels, region.box))
            blob = sha256_of(png)
            pictures[blob] = png
        every = (region.box.width // settings.grid) * (region.box.height // settings.grid)
        items.append(
            VisualItem(
                blob=blob,
                size=Size(width=region.box.width, height=region.box.height),
                tokens=region.tokens(settings.grid),
                turn=turn,
                screen=screen.size,
                box=region.box,
                base=base,
                time=time,
                keep=None if region.keep is None else keep_set(region.keep, every),
                covers=None if region.covers is None else keep_set(region.covers, every),
                shared=region.shared,
            )
        )
    return items, pictures


def _superseded(prior: Sequence[Piece], items: Sequence[VisualItem], grid: int) -> list[int]:
    if not items:
        return []
    new = coverage(items, grid) > 0
    return [
        index
        for index, piece in enumerate(prior)
        if isinstance(piece, VisualItem)
        and piece.box is not None
        and (new[place(piece.box, grid)] & token_mask(piece, grid)).any()
    ]
