"""A screen cut into cells on the model's token grid, and what of it changed.

A screen is RGB pixels: uint8 [height, width, 3], C-contiguous, both sides multiples of the grid.
Cells lie in raster order from the upper left corner; those at the right and bottom border are
smaller when the cell does not divide the screen. A cell's identity is the SHA-256 of its size and
pixels. Hashing costs far more than comparing, so of a next screen only what differs is hashed.
"""

from __future__ import annotations

import hashlib
import io
import struct
import zlib
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from PIL import Image

from agentserve.core.errors import InvalidRequest
from agentserve.core.plans import Box, Sha256
from agentserve.core.screens import Size


@dataclass(frozen=True, eq=False)
class CutScreen:
    """A screen's pixels and the identities of its cells."""

    pixels: np.ndarray
    """uint8 [height, width, 3]."""
    cell: int
    """Edge in px."""
    identities: tuple[Sha256, ...]
    """Of the cells, in raster order."""

    @property
    def size(self) -> Size:
        height, width, _ = self.pixels.shape
        return Size(width=width, height=height)

    @property
    def boxes(self) -> tuple[Box, ...]:
        return cell_boxes(self.size, self.cell)

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns of cells."""
        columns = -(-self.size.width // self.cell)
        return len(self.identities) // columns, columns

    def changed_since(self, before: CutScreen) -> np.ndarray:
        """bool [rows, columns]: which cells differ from those of a screen of the same size and
        cell. Their pixels were compared when this screen was cut."""
        pairs = zip(self.identities, before.identities, strict=True)
        return np.array([now != then for now, then in pairs]).reshape(self.shape)


def check_cell(cell: int, grid: int) -> None:
    """Raises InvalidRequest when cells of that edge are not on the token grid (both in px)."""
    if cell < grid or cell % grid:
        raise InvalidRequest(
            f"a cell of {cell} px is no multiple of this model's token grid of {grid} px",
            hint=f"choose {grid}, {2 * grid} or {4 * grid}",
        )


@lru_cache(maxsize=64)
def cell_boxes(screen: Size, cell: int) -> tuple[Box, ...]:
    """The cells of a screen, in raster order. They tile it."""
    return tuple(
        Box(
            x=x,
            y=y,
            width=min(cell, screen.width - x),
            height=min(cell, screen.height - y),
        )
        for y in range(0, screen.height, cell)
        for x in range(0, screen.width, cell)
    )


def cut(pixels: np.ndarray, cell: int, last: CutScreen | None = None) -> CutScreen:
    """Cut a screen. With ``last``, a screen of the same size and cell, only the cells that differ
    from it are hashed."""
    boxes = cell_boxes(Size(width=pixels.shape[1], height=pixels.shape[0]), cell)
    if last is None:
        return CutScreen(pixels, cell, tuple(identity(part(pixels, box)) for box in boxes))
    identities = list(last.identities)
    for index in np.flatnonzero(changed_cells(last.pixels, pixels, cell)):
        identities[index] = identity(part(pixels, boxes[index]))
    return CutScreen(pixels, cell, tuple(identities))


def changed_cells(before: np.ndarray, now: np.ndarray, cell: int) -> np.ndarray:
    """bool [rows, columns]: which cells of two equally large screens differ.

    Pixels are compared four bytes at once: three to a pixel, and the grid is a multiple of four.
    """
    words = _words(before) != _words(now)
    rows = np.arange(0, words.shape[0], cell)
    columns = np.arange(0, words.shape[1], cell * 3 // 4)
    # A row of words first: adding up whole rows is the fast direction in memory.
    lines = np.logical_or.reduceat(words, rows, axis=0)
    return np.logical_or.reduceat(lines, columns, axis=1)


def identity(pixels: np.ndarray) -> Sha256:
    """SHA-256 of a picture's size and RGB pixels, uint8 [height, width, 3]."""
    height, width, _ = pixels.shape
    digest = hashlib.sha256(f"{width}x{height}:".encode())
    digest.update(np.ascontiguousarray(pixels).data)
    return digest.hexdigest()


def part(pixels: np.ndarray, box: Box) -> np.ndarray:
    """The pixels of a box: a view."""
    return pixels[box.y : box.y + box.height, box.x : box.x + box.width]


def as_png(pixels: np.ndarray) -> bytes:
    """A PNG of the pixels. With one version of Pillow, equal pixels give equal bytes."""
    out = io.BytesIO()
    Image.fromarray(np.ascontiguousarray(pixels)).save(out, "PNG", compress_level=1)
    return out.getvalue()


def quick_png(pixels: np.ndarray) -> bytes:
    """The same in a third of the time, by rows as they are: Pillow tries five filters on each. A
    page's picture is as small so, a photo's a quarter larger: for what stays on this machine."""
    height, width, _ = pixels.shape
    rows = np.zeros((height, 1 + 3 * width), np.uint8)  # each behind the number of its filter: none
    rows[:, 1:] = pixels.reshape(height, -1)
    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)  # 8 bits a sample, RGB
    chunks = (b"IHDR", head), (b"IDAT", zlib.compress(rows.data, 1)), (b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
        for kind, data in chunks
    )


def as_pixels(picture: bytes) -> np.ndarray:
    """The pixels of a model image (see screenshots.Screenshot): uint8 [height, width, 3]."""
    with Image.open(io.BytesIO(picture)) as image:
        return np.asarray(image.convert("RGB"))


def _words(pixels: np.ndarray) -> np.ndarray:
    """uint32 [height, width * 3 / 4]."""
    return np.ascontiguousarray(pixels).reshape(pixels.shape[0], -1).view(np.uint32)
