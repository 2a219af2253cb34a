"""Finds what scrolled: a rectangle whose pixels stood elsewhere on the last screen.

What it is good for: a moved cell must be sent again, for its tokens' positions have changed, but
its pixels need not be encoded again when they were encoded on their own before. Cells have that by
their identity alone when the page moved by a multiple of the cell. A move by a multiple of the
token grid that is none of the cell (the end of a page, a keyboard scroll) would cut the same pixels
into other cells: there the mosaic moves the cells along (see mosaic). Nothing can be kept when the
page moved by less than a token, and then no move is looked for.

The method is that of line diff: lines of pixels that occur once on either screen vote for a shift.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import numpy as np

from agentserve.core.plans import Box

MIN_VOTES = 4
"""Lines that must agree. Fewer meet by chance: a caret, the edge of a button."""


@dataclass(frozen=True)
class Scroll:
    """Content that moved along one axis."""

    box: Box
    """Where it is now, in px."""
    dx: int
    """How far to the right it moved, in px; one of dx and dy is 0."""
    dy: int
    """How far down."""

    @property
    def source(self) -> Box:
        """Where it was."""
        return self.box.model_copy(update={"x": self.box.x - self.dx, "y": self.box.y - self.dy})


def find_scroll(before: np.ndarray, now: np.ndarray, grid: int) -> Scroll | None:
    """A move by a multiple of ``grid`` px: vertical, or else horizontal.

    Both screens are uint8 [height, width, 3] of the same size. It is looked for in the rectangle
    around everything that differs: a vertical move has its whole width, a horizontal one its whole
    height, and something else that changes beside it hides it. Every moved pixel is equal: the
    answer has no false positives.
    """
    within = _around_differences(before, now)
    if within is None:
        return None
    area = np.s_[within.y : within.y + within.height, within.x : within.x + within.width]
    if move := _moved_lines(before[area], now[area], grid):
        start, length, shift = move
        box = within.model_copy(update={"y": within.y + start, "height": length})
        return Scroll(box, 0, shift)
    columns = [np.ascontiguousarray(screen[area].swapaxes(0, 1)) for screen in (before, now)]
    if move := _moved_lines(*columns, grid):
        start, length, shift = move
        box = within.model_copy(update={"x": within.x + start, "width": length})
        return Scroll(box, shift, 0)
    return None


def _around_differences(before: np.ndarray, now: np.ndarray) -> Box | None:
    differs = (before != now).reshape(len(before), -1)  # one axis at a time is many times faster
    rows = np.flatnonzero(differs.any(axis=1))
    if not len(rows):
        return None
    samples = differs[rows[0] : rows[-1] + 1].any(axis=0)
    columns = np.flatnonzero(samples.reshape(-1, 3).any(axis=1))
    return Box(
        x=int(columns[0]),
        y=int(rows[0]),
        width=int(columns[-1] - columns[0]) + 1,
        height=int(rows[-1] - rows[0]) + 1,
    )


def _moved_lines(old: np.ndarray, new: np.ndarray, grid: int) -> tuple[int, int, int] | None:
    """(first line, number of lines, shift) of the longest run of lines with new[i] == old[i - s]
    for the shift s that most lines vote for."""
    old_lines = [line.tobytes() for line in old]
    new_lines = [line.tobytes() for line in new]
    was = _once(old_lines)
    votes = Counter(
        index - was[line]
        for line, index in _once(new_lines).items()
        if line in was and (index - was[line]) % grid == 0 and index != was[line]
    )
    if not votes:
        return None
    shift, count = min(votes.items(), key=lambda vote: (-vote[1], abs(vote[0]), vote[0]))
    if count < MIN_VOTES:
        return None
    first = max(0, shift)
    last = min(len(new_lines), len(old_lines) + shift)
    equal = [new_lines[i] == old_lines[i - shift] for i in range(first, last)]
    start, length = _longest_run(equal)
    return first + start, length, shift


def _once(lines: list[bytes]) -> dict[bytes, int]:
    """The lines that occur once, with their index."""
    counts = Counter(lines)
    return {line: index for index, line in enumerate(lines) if counts[line] == 1}


def _longest_run(flags: list[bool]) -> tuple[int, int]:
    best, start = (0, 0), None
    for index, flag in enumerate([*flags, False]):
        if flag and start is None:
            start = index
        elif not flag and start is not None:
            best, start = max(best, (index - start, -start)), None
    return -best[1], best[0]
