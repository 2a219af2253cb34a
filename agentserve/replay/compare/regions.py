"""Where screens differ: different pixels gathered into boxes, and what only moved. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

CELL = 8
"""In CSS px: different pixels less than two cells apart are of one region, as the letters of a word
are."""
_NEAR = 8
"""In cells: the most between regions that may be the edges and words of one thing that moved."""
_ALIKE = 0.98
"""Of the pixels of what moved: so many are the same in its new place. Antialiasing may differ."""
_RIM = 2
_ONE_COLOUR = 0.9
_SEEN = 16
"""Of a colour channel: by more than this, something stands out of what is around it."""


@dataclass(frozen=True, eq=False)
class Region:
    """A box around different pixels, in px of the screenshot."""

    x: int
    y: int
    width: int
    height: int
    count: int
    """Of its pixels that differ."""

    @property
    def share(self) -> float:
        return self.count / (self.width * self.height)

    def of(self, pixels: np.ndarray) -> np.ndarray:
        return pixels[self.y : self.y + self.height, self.x : self.x + self.width]


def find_regions(different: np.ndarray, cell: int = CELL) -> list[Region]:
    """Boxes around the True of bool [height, width], those with the most of them first. ``cell`` is
    in px of the screenshot."""
    height, width = different.shape
    down, across = -(-height // cell), -(-width // cell)
    padded = np.zeros((down * cell, across * cell), bool)
    padded[:height, :width] = different
    occupied = padded.reshape(down, cell, across, cell).any(axis=(1, 3))
    regions = []
    for rows, columns in _components(occupied):
        top, left = int(rows.min()) * cell, int(columns.min()) * cell
        bottom, right = (int(rows.max()) + 1) * cell, (int(columns.max()) + 1) * cell
        own = np.zeros((down, across), bool)
        own[rows, columns] = True
        part = own[top // cell : bottom // cell, left // cell : right // cell]
        pixels = padded[top:bottom, left:right] & part.repeat(cell, 0).repeat(cell, 1)
        ys, xs = np.flatnonzero(pixels.any(axis=1)), np.flatnonzero(pixels.any(axis=0))
        regions.append(
            Region(
                x=left + int(xs[0]),
                y=top + int(ys[0]),
                width=int(xs[-1] - xs[0]) + 1,
                height=int(ys[-1] - ys[0]) + 1,
                count=int(pixels.sum()),
            )
        )
    return sorted(regions, key=lambda region: (-region.count, region.y, region.x))


def _components(occupied: np.ndarray) -> list[tuple[np.ndarray, np.ndarray]]:
    """Rows and columns of the True cells of each group that hangs together, corners included."""
    left = {(int(row), int(column)) for row, column in np.argwhere(occupied)}
    found = []
    while left:
        group, todo = [], [left.pop()]
        while todo:
            row, column = todo.pop()
            group.append((row, column))
            around = {(row + y, column + x) for y in (-1, 0, 1) for x in (-1, 0, 1)} & left
            left -= around
            todo += around
        rows, columns = np.array(group).T
        found.append((rows, columns))
    return found


@dataclass(frozen=True)
class Change:
    """What became of a region."""

    region: Region
    to: Region | None = None
    """Where it is now, when it only moved."""


def find_changes(
    before: np.ndarray, after: np.ndarray, regions: Sequence[Region], cell: int = CELL
) -> list[Change]:
    """What became of the regions, in their order. RGB, uint8 [height, width, 3], before and after.

    Nothing is guessed: what is said to have moved is there, pixel by pixel, in its new place, and
    what is left in its old one is what was around it. All regions of one move are one change.
    """
    changes: list[Change] = []
    left = list(regions)
    while left:
        region = left[0]
        for group in (_near(region, left, _NEAR * cell), [region]):
            change = _moved_within(before, after, _union(group))
            if change is not None:
                break
        else:
            group = [region]
            for place in left[1:]:
                if _moved_to(before, after, region, place):
                    group, change = [region, place], Change(region, place)
                elif _moved_to(before, after, place, region):
                    group, change = [region, place], Change(place, region)
                else:
                    continue
                break
        changes.append(change or Change(region))
        left = [one for one in left if one not in group]
    return changes


def _near(region: Region, regions: Sequence[Region], gap: int) -> list[Region]:
    """The region, and all that are at most ``gap`` px from it or from another one of these."""
    group, todo = [region], [region]
    while todo:
        one = todo.pop()
        for other in regions:
            if other not in group and _gap(one, other) <= gap:
                group.append(other)
                todo.append(other)
    return group


def _gap(one: Region, other: Region) -> int:
    across = max(one.x, other.x) - min(one.x + one.width, other.x + other.width)
    down = max(one.y, other.y) - min(one.y + one.height, other.y + other.height)
    return max(across, down)


def _union(regions: Sequence[Region]) -> Region:
    x, y = min(one.x for one in regions), min(one.y for one in regions)
    return Region(
        x=x,
        y=y,
        width=max(one.x + one.width for one in regions) - x,
        height=max(one.y + one.height for one in regions) - y,
        count=sum(one.count for one in regions),
    )


def _moved_to(before: np.ndarray, after: np.ndarray, old: Region, new: Region) -> bool:
    if (old.width, old.height) != (new.width, new.height):
        return False
    was, now = old.of(before), new.of(after)
    return (
        not _flat(was)
        and _alike(was, now)
        and _flat(old.of(after))  # nothing else came, and it lay upon nothing else
        and _flat(new.of(before))
    )


def _moved_within(before: np.ndarray, after: np.ndarray, region: Region) -> Change | None:
    """Of something that moved by less than its own size, so that old and new place are one region;
    None when that is not what happened."""
    ground = _ground(before, region)
    if ground is None:
        return None
    old, new = (_box(region, region.of(pixels), ground) for pixels in (before, after))
    if old is None or new is None or (old.x, old.y) == (new.x, new.y):
        return None
    if (old.width, old.height) != (new.width, new.height):
        return None
    return Change(old, new) if _alike(old.of(before), new.of(after)) else None


def _ground(before: np.ndarray, region: Region) -> np.ndarray | None:
    """The one colour around a region, [3]; None when there are several."""
    around = np.ones(before.shape[:2], bool)
    region.of(around)[:] = False
    rows = slice(max(0, region.y - _RIM), region.y + region.height + _RIM)
    columns = slice(max(0, region.x - _RIM), region.x + region.width + _RIM)
    rim = before[rows, columns][around[rows, columns]]
    if len(rim) == 0:
        return None
    colours, counts = np.unique(rim, axis=0, return_counts=True)
    most = int(counts.argmax())
    return colours[most] if counts[most] >= _ONE_COLOUR * len(rim) else None


def _box(region: Region, pixels: np.ndarray, ground: np.ndarray) -> Region | None:
    """Where in a region something stands out of the ground."""
    seen = np.abs(pixels.astype(np.int16) - ground).max(axis=2) > _SEEN
    ys, xs = np.flatnonzero(seen.any(axis=1)), np.flatnonzero(seen.any(axis=0))
    if len(ys) == 0:
        return None
    return Region(
        x=region.x + int(xs[0]),
        y=region.y + int(ys[0]),
        width=int(xs[-1] - xs[0]) + 1,
        height=int(ys[-1] - ys[0]) + 1,
        count=region.count,
    )


def _alike(one: np.ndarray, other: np.ndarray) -> bool:
    return float((one == other).all(axis=2).mean()) >= _ALIKE


def _flat(pixels: np.ndarray) -> bool:
    """Of one colour, but for antialiasing."""
    return _alike(pixels, np.broadcast_to(np.median(pixels, axis=(0, 1)), pixels.shape))
