"""Sessions of random screens: a browser that changes, scrolls and navigates, and a host that shows
what it is told. No worker: what one would hold follows from the rules."""

from __future__ import annotations

import io
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
from PIL import Image

from agentserve.core.blobs import sha256_of
from agentserve.core.plans import Piece, TextPiece, VisualItem, next_position, num_tokens
from agentserve.vision.cells import CutScreen, cut
from agentserve.vision.layouts import Layout
from agentserve.vision.mosaic import (
    Held,
    Limits,
    MosaicPlan,
    MosaicSettings,
    held_after,
    plan_mosaic,
)
from agentserve.vision.settle import covered_mask, is_part, place_of, token_mask
from agentserve.vision.thinning import Wishes

WIDE = Limits(tokens=1_000_000, positions=1_000_000)
BEGIN, END = 1, 2
SIZE = (140, 196)  # 5 x 7 tokens, 3 x 4 cells: those at the border are smaller
GRID, CELL = 28, 56


def page(seed: int = 0) -> np.ndarray:
    """uint8 [height, width, 3] of SIZE, nowhere black."""
    return np.random.default_rng(seed).integers(1, 256, (*SIZE, 3), dtype=np.uint8)


def touched(pixels: np.ndarray, *places: tuple[int, int]) -> np.ndarray:
    """The screen with other pixels at (x, y)."""
    pixels = pixels.copy()
    for x, y in places:
        pixels[y, x] ^= 255
    return pixels


@dataclass
class Session:
    """Plays turns, and keeps every picture that was ever sent."""

    settings: MosaicSettings
    cell: int
    limits: Limits = WIDE
    layout: Layout | None = None
    wishes: Wishes = Wishes()
    held: Held = field(default_factory=Held)
    blobs: dict[str, np.ndarray] = field(default_factory=dict)
    last: CutScreen | None = None
    turn: int = 0

    def plan(self, pixels: np.ndarray) -> MosaicPlan:
        self.last = cut(pixels, self.cell, self.last)
        planned = plan_mosaic(
            self.settings, self.held, self.last, self.turn, self.limits, self.layout, self.wishes
        )
        for blob, png in planned.pictures.items():
            assert sha256_of(png) == blob
            with Image.open(io.BytesIO(png)) as image:
                self.blobs[blob] = np.asarray(image)
        return planned

    def play(self, pixels: np.ndarray, *, show: bool = True) -> tuple[MosaicPlan, list[Piece]]:
        """One turn; returns its plan and its whole prompt with the answer."""
        planned = self.plan(pixels)
        pieces = answer(planned, self.settings.grid, show=show)
        assert self.last is not None
        self.held = held_after(
            planned.plan, pieces, self.held, self.last, self.turn, self.settings.grid
        )
        self.turn += 1
        return planned, [*planned.plan.prior, *pieces]


def answer(planned: MosaicPlan, grid: int, *, show: bool = True) -> list[Piece]:
    """The pieces of a program host that puts text before and behind the screen."""
    plan = planned.plan
    position = next_position(plan.prior, grid)
    pieces: list[Piece] = [TextPiece(ids=[100, 101, 102], position=position)]
    position += 3
    if show and plan.screen:
        for index, item in enumerate(plan.screen):
            changes: dict[str, object] = {"position": position + (index > 0)}
            if item.base is None:
                changes["base"] = position + 1
            if index == 0:
                changes["begin"] = [BEGIN]
            if index == len(plan.screen) - 1:
                changes["end"] = [END]
            pieces.append(item.model_copy(update=changes))
        position = next_position(pieces, grid)
    pieces.append(TextPiece(ids=[200 + len(plan.prior), 201], position=position))
    return pieces


def tokens(pieces: list[Piece], grid: int) -> list[tuple]:
    """A prompt in token space: what each token is, and its (t, h, w)."""
    row: list[tuple] = []
    for piece in pieces:
        if isinstance(piece, TextPiece):
            row += [(i, piece.position + n) for n, i in enumerate(piece.ids)]
            continue
        row += [(i, piece.position + n) for n, i in enumerate(piece.begin)]
        time = piece.base if piece.time is None else piece.time
        top, left = (one.start for one in place_of(piece, grid))
        for y, x in np.argwhere(token_mask(piece, grid)):
            where = (time, piece.base + top + int(y), piece.base + left + int(x))
            row.append((piece.blob, int(y), int(x), where))
        row += [(i, piece.end_position(grid) + n) for n, i in enumerate(piece.end)]
    assert len(row) == num_tokens(pieces)
    return row


def live_pixels(pieces: list[Piece], blobs: dict[str, np.ndarray], grid: int) -> np.ndarray:
    """The screen that the live parts stand for; 0 where there is none. Fails where two parts stand
    for the same place."""
    parts = [piece for piece in pieces if isinstance(piece, VisualItem) and is_part(piece)]
    size = parts[0].screen
    assert size is not None
    shown = np.zeros((size.height, size.width, 3), np.uint8)
    times = np.zeros((size.height // grid, size.width // grid), int)
    for item in parts:
        rows, columns = place_of(item, grid)
        mask = covered_mask(item, grid)
        times[rows, columns] += mask
        pixels = mask.repeat(grid, 0).repeat(grid, 1)
        box = item.box
        assert box is not None
        area = shown[box.y : box.y + box.height, box.x : box.x + box.width]
        area[pixels] = blobs[item.blob][pixels]
    assert (times <= 1).all()
    return shown


def screens(random: np.random.Generator, size: tuple[int, int], grid: int) -> Iterator[np.ndarray]:
    """Endless screens of (height, width): small changes, repeats, scrolls by grid and by less, new
    pages, and screens that were there before."""
    page = _page(random, size)
    seen = [page]
    while True:
        yield page
        kind = random.choice(["small", "small", "same", "scroll", "odd", "new", "back"])
        page = page.copy()
        if kind == "small":
            for _ in range(random.integers(1, 4)):
                y, x = (int(random.integers(0, side - 4)) for side in size)
                page[y : y + 4, x : x + 4] = random.integers(1, 256, 3, dtype=np.uint8)
        elif kind in ("scroll", "odd"):
            step = grid if kind == "scroll" else 5
            rows = int(random.integers(1, 4)) * step * int(random.choice([-1, 1]))
            top = int(random.integers(0, 2)) * grid
            page[top:] = np.roll(page[top:], rows, axis=0)
        elif kind == "new":
            page = _page(random, size)
        elif kind == "back":
            page = seen[int(random.integers(len(seen)))]
        seen.append(page)


def _page(random: np.random.Generator, size: tuple[int, int]) -> np.ndarray:
    return random.integers(1, 256, (*size, 3), dtype=np.uint8)
