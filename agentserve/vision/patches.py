"""A screenshot as an earlier one and what has changed since. Clients make patches, the router
applies them.

Both sides speak of pixels as ``screenshots.pixels_of`` reads them, and a patch says which ones must
come out: cells.identity of the whole picture. So a patch that was applied is as good as the
screenshot itself, and everything else is refused.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from agentserve.core.blobs import sha256_of
from agentserve.core.errors import BadScreenshot
from agentserve.core.plans import Box, Sha256
from agentserve.core.screens import ScreenSpace
from agentserve.core.screenshots import MAX_REGIONS
from agentserve.vision.cells import as_png, identity, part
from agentserve.vision.screenshots import Screenshot, open_screenshot, pixels_of, screenshot_of

CELL = 64
"""Edge, in px, of what a client compares and sends."""
_HINT = "send the whole screenshot instead"


@dataclass(frozen=True)
class Region:
    """A part of the new screenshot."""

    box: Box
    """In px of the screenshot."""
    png: bytes


@dataclass(frozen=True)
class ScreenPatch:
    """A screenshot as it is sent. All of it is hostile, the base included: a client put it there
    itself."""

    base: bytes
    """The earlier screenshot: a PNG, JPEG or WebP."""
    regions: Sequence[Region]
    """Put over the base in this order."""
    sha256: Sha256
    """cells.identity of the new screenshot."""


def make_regions(before: np.ndarray, after: np.ndarray) -> list[Region] | None:
    """What turns one screen into another: none when they are equal. None when that takes too many
    regions, or they are of different sizes."""
    if before.shape != after.shape:
        return None
    boxes = changed_boxes(before, after)
    if len(boxes) > MAX_REGIONS:
        return None
    return [Region(box, as_png(part(after, box))) for box in boxes]


def changed_boxes(before: np.ndarray, after: np.ndarray) -> list[Box]:
    """Boxes around everything in which two equally large screens differ, which do not overlap: runs
    of changed cells in a row, those of the same columns below each other in one, cut down to what
    differs within."""
    red, green, blue = np.moveaxis(before != after, 2, 0)
    differs = red | green | blue  # a tenth of the time of any(axis=2)
    rows = np.arange(0, differs.shape[0], CELL)
    columns = np.arange(0, differs.shape[1], CELL)
    lines = np.logical_or.reduceat(differs, rows, axis=0)
    cells = np.logical_or.reduceat(lines, columns, axis=1)
    return [_tight(differs, block) for block in _blocks(cells)]


def _blocks(cells: np.ndarray) -> list[tuple[int, int, int, int]]:
    """Rectangles (top, bottom, left, right; ends exclusive) that cover the true cells exactly."""
    done: list[tuple[int, int, int, int]] = []
    growing: dict[tuple[int, int], int] = {}
    for row in range(len(cells) + 1):
        runs = _runs(cells[row]) if row < len(cells) else []
        for run in [run for run in growing if run not in runs]:
            done.append((growing.pop(run), row, *run))
        for run in runs:
            growing.setdefault(run, row)
    return done


def _runs(row: np.ndarray) -> list[tuple[int, int]]:
    edges = np.flatnonzero(np.diff(np.concatenate(([False], row, [False]))))
    return [(int(left), int(right)) for left, right in edges.reshape(-1, 2)]


def _tight(differs: np.ndarray, block: tuple[int, int, int, int]) -> Box:
    top, bottom, left, right = (edge * CELL for edge in block)
    inside = differs[top:bottom, left:right]
    rows = np.flatnonzero(inside.any(axis=1))
    columns = np.flatnonzero(inside.any(axis=0))
    return Box(
        x=left + int(columns[0]),
        y=top + int(rows[0]),
        width=int(columns[-1] - columns[0]) + 1,
        height=int(rows[-1] - rows[0]) + 1,
    )


def name_of_sent(sent: bytes | ScreenPatch) -> Sha256:
    """What tells a screenshot from another one as it was sent, without decoding anything."""
    return sent.sha256 if isinstance(sent, ScreenPatch) else sha256_of(sent)


def open_sent(
    sent: bytes | ScreenPatch, name: Sha256, space: ScreenSpace, *, max_bytes: int
) -> Screenshot:
    """A screenshot in either form, with its ``name_of_sent``, checked against a session's screen.
    Raises BadScreenshot."""
    if isinstance(sent, ScreenPatch):
        return apply_patch(sent, space, max_bytes=max_bytes)
    return open_screenshot(sent, space, max_bytes=max_bytes, sha256=name)


def apply_patch(patch: ScreenPatch, space: ScreenSpace, *, max_bytes: int) -> Screenshot:
    """The screenshot that a patch stands for, as a PNG.

    Takes milliseconds of CPU: call it in a thread. Raises BadScreenshot.
    """
    sent = sum(len(region.png) for region in patch.regions)
    if sent > max_bytes or len(patch.regions) > MAX_REGIONS:
        raise BadScreenshot(
            f"the patch has {len(patch.regions)} regions with {sent} bytes, the limit is "
            f"{MAX_REGIONS} with {max_bytes}",
            hint=_HINT,
        )
    pixels = pixels_of(patch.base, max_bytes=max_bytes, what="the patch's base")
    height, width, _ = pixels.shape
    _check_boxes([region.box for region in patch.regions], width, height)
    for number, region in enumerate(patch.regions):
        what = f"the patch's region {number}"
        changed = pixels_of(
            region.png,
            max_bytes=max_bytes,
            what=what,
            formats=("PNG",),
            size=(region.box.width, region.box.height),
        )
        part(pixels, region.box)[:] = changed
    found = identity(pixels)
    if found != patch.sha256:
        raise BadScreenshot(
            f"the patched screenshot's pixels have the SHA-256 {found}, not {patch.sha256}",
            hint=_HINT,
        )
    return screenshot_of(pixels, space)


def _check_boxes(boxes: Sequence[Box], width: int, height: int) -> None:
    """Refuse what lies outside, and what would be more to decode than the screen itself."""
    for number, box in enumerate(boxes):
        if box.x + box.width > width or box.y + box.height > height:
            raise BadScreenshot(
                f"the patch's region {number} ({box.width}x{box.height} at {box.x}, {box.y}) is "
                f"not inside the base, which is {width}x{height}",
                hint=_HINT,
            )
    if sum(box.width * box.height for box in boxes) > width * height:
        raise BadScreenshot(
            "the patch's regions have more pixels than the screen", hint="let none overlap"
        )
