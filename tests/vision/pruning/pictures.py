"""Small pictures whose tokens are 4 px wide."""

from __future__ import annotations

import numpy as np

from agentserve.vision.pruning import View

GRID = 4


def picture(*rows: str, noise: str = "#", seed: int = 0) -> np.ndarray:
    """A letter is a token of one colour, 8 levels brighter for the next letter; ``noise`` is one of
    random pixels, different each time. uint8 [height, width, 3]."""
    random = np.random.default_rng(seed)
    pixels = np.empty((len(rows) * GRID, len(rows[0]) * GRID, 3), np.uint8)
    for y, row in enumerate(rows):
        for x, letter in enumerate(row):
            tile = pixels[y * GRID : (y + 1) * GRID, x * GRID : (x + 1) * GRID]
            tile[:] = (
                random.integers(0, 256, tile.shape) if letter == noise else 8 * (ord(letter) - 91)
            )
    return pixels


def view(pixels: np.ndarray, covered: np.ndarray | None = None, **more) -> View:
    """Of a picture, all tokens covered unless told otherwise."""
    shape = (pixels.shape[0] // GRID, pixels.shape[1] // GRID)
    return View(pixels, GRID, np.ones(shape, bool) if covered is None else covered, **more)


def sketch(mask: np.ndarray) -> list[str]:
    """``x`` for what stays, by row."""
    return ["".join("x" if stays else "." for stays in row) for row in mask]
