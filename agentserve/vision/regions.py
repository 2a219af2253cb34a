"""Boxes on the grid: how marked cells are sent.

A region's box is what the vision encoder sees at once; of its tokens those in the keep set go on
into the prompt. So context for a cell is a larger box.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from agentserve.core.plans import Box, Sha256
from agentserve.core.screens import Size
from agentserve.core.sessions import VisionContext
from agentserve.vision.cells import CutScreen
from agentserve.vision.layouts import Layout
from agentserve.vision.scroll import Scroll


@dataclass(frozen=True, eq=False)
class Region:
    """A part of the screen that is sent."""

    box: Box
    keep: np.ndarray | None = None
    """Indices of the tokens that are kept, int64. None: all."""
    covers: np.ndarray | None = None
    """Indices of the tokens that the region stands for, int64. None: the kept ones."""
    shared: bool = False
    blob: Sha256 | None = None
    """Of its picture, when it was sent before at another place."""
    in_full: bool = False
    """Whether it is sent again because too little of it was left: it is not thinned."""

    def tokens(self, grid: int) -> int:
        """How many go into the prompt."""
        every = (self.box.width // grid) * (self.box.height // grid)
        return every if self.keep is None else len(self.keep)


def first_regions(
    context: VisionContext, screen: CutScreen, layout: Layout, grid: int
) -> list[Region]:
    """A session's first screen: the cells that look as the layout says come first, as they do in
    the other sessions of the surface; of everything else nothing is known."""
    shape = screen.shape
    every = np.ones(shape, bool)
    if context == "screen":
        return changed_regions(context, screen, every, grid)
    boxes = _static_cells(screen, layout) if context == "cell" else _static_areas(screen, layout)
    for box in boxes:
        every[place(box, screen.cell)] = False
    static = [Region(box, shared=True) for box in boxes]
    return static + changed_regions(context, screen, every, grid)


def changed_regions(
    context: VisionContext, screen: CutScreen, cells: np.ndarray, grid: int
) -> list[Region]:
    """The cells marked in bool [rows, columns], in raster order."""
    if not cells.any():
        return []
    if context == "screen":
        wanted = on_tokens(cells, screen, grid)
        whole = Box(x=0, y=0, width=screen.size.width, height=screen.size.height)
        return [Region(whole, None if wanted.all() else np.flatnonzero(wanted))]
    if context == "region":
        return [Region(_box(*area, screen.cell, screen.size)) for area in rectangles(cells)]
    return [Region(box) for box, sent in zip(screen.boxes, cells.flat, strict=True) if sent]


def reuse_moved(
    regions: Sequence[Region],
    sent: Sequence[tuple[Box, Sha256]],
    scroll: Scroll,
    screen: Size,
    grid: int,
) -> list[Region]:
    """The same tokens as ``regions``, which keep all of theirs, cut so that what scrolled is sent
    in the pictures that it was ``sent`` in before (boxes on the last screen, and blobs).

    A moved picture is used when all of it is to be sent; what no picture shows is sent in
    rectangles, none of them across the border of a region.
    """
    left = np.zeros((screen.height // grid, screen.width // grid), bool)
    for region in regions:
        left[place(region.box, grid)] = True
    result = []
    for box, blob in sent:
        if not _inside(box, scroll.source):
            continue
        moved = box.model_copy(update={"x": box.x + scroll.dx, "y": box.y + scroll.dy})
        if left[place(moved, grid)].all():
            left[place(moved, grid)] = False
            result.append(Region(moved, blob=blob))
    for region in regions:
        rest = left[place(region.box, grid)]
        top, side = region.box.y // grid, region.box.x // grid
        for row, column, rows, columns in rectangles(rest):
            result.append(Region(_box(top + row, side + column, rows, columns, grid, screen)))
    return result


def on_tokens(cells: np.ndarray, screen: CutScreen, grid: int) -> np.ndarray:
    """A mask of the screen's cells as bool [rows, columns] of its token grid."""
    times = screen.cell // grid
    tokens = cells.repeat(times, axis=0).repeat(times, axis=1)
    return tokens[: screen.size.height // grid, : screen.size.width // grid]


def place(box: Box, edge: int) -> tuple[slice, slice]:
    """A box as an index (rows, columns) into a grid of ``edge`` px. A border that the screen cut
    off counts as a whole square."""
    return (
        slice(box.y // edge, -(-(box.y + box.height) // edge)),
        slice(box.x // edge, -(-(box.x + box.width) // edge)),
    )


def rectangles(mask: np.ndarray) -> list[tuple[int, int, int, int]]:
    """(row, column, rows, columns) of rectangles that tile the set places of bool [rows, columns].

    Greedy from the upper left: as far right as it goes, then as far down. The same mask gives the
    same rectangles, and a full one a single one.
    """
    left = mask.copy()
    found = []
    for row, column in np.argwhere(mask):
        if left[row, column]:
            columns = _run(left[row, column:])
            rows = _run(left[row:, column : column + columns].all(axis=1))
            left[row : row + rows, column : column + columns] = False
            found.append((int(row), int(column), rows, columns))
    return found


def _run(flags: np.ndarray) -> int:
    """How many of the first flags are set."""
    gaps = np.flatnonzero(~flags)
    return int(gaps[0]) if len(gaps) else len(flags)


def _box(row: int, column: int, rows: int, columns: int, edge: int, screen: Size) -> Box:
    """Squares of a grid of ``edge`` px as a box, cut off at the screen's border."""
    x, y = column * edge, row * edge
    return Box(
        x=x,
        y=y,
        width=min(columns * edge, screen.width - x),
        height=min(rows * edge, screen.height - y),
    )


def _static_cells(screen: CutScreen, layout: Layout) -> list[Box]:
    return [
        screen.boxes[one.cell]
        for one in layout.cells
        if screen.identities[one.cell] == one.identity
    ]


def _static_areas(screen: CutScreen, layout: Layout) -> list[Box]:
    """Rectangles of the layout, not of this screen (only so do sessions have the same ones), all
    of whose cells look as they should; the one with the most stable cell first."""
    shape = screen.shape
    rank = np.full(shape, len(layout.cells))
    as_ever = np.zeros(shape, bool)
    for index, one in reversed(list(enumerate(layout.cells))):
        rank.flat[one.cell] = index
        as_ever.flat[one.cell] |= screen.identities[one.cell] == one.identity
    boxes = [_box(*area, screen.cell, screen.size) for area in rectangles(rank < len(layout.cells))]
    kept = [box for box in boxes if as_ever[place(box, screen.cell)].all()]
    return sorted(kept, key=lambda box: rank[place(box, screen.cell)].min())


def _inside(inner: Box, outer: Box) -> bool:
    return (
        outer.x <= inner.x
        and outer.y <= inner.y
        and inner.x + inner.width <= outer.x + outer.width
        and inner.y + inner.height <= outer.y + outer.height
    )
