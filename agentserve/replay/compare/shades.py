"""Areas of a screen whose colour has changed by little, but all over. Pure.

A distance that lets the edges of letters go lets a pale red go for a pale green. People see such a
change where it covers an area, so areas are looked for: what is narrower than a stroke of
``_STROKE`` CSS px, as a caret and the edges that antialiasing makes, is none.
"""

from __future__ import annotations

import numpy as np

from agentserve.replay.compare.regions import CELL, find_regions

AREA_PX2 = 64
"""Of CSS px: a smaller area is none."""
_STROKE = 4
# sRGB to CIE XYZ, each row by the white point D65 of its coordinate
_XYZ = np.array(
    [
        [0.4124564 / 0.95047, 0.3575761 / 0.95047, 0.1804375 / 0.95047],
        [0.2126729, 0.7151522, 0.0721750],
        [0.0193339 / 1.08883, 0.1191920 / 1.08883, 0.9503041 / 1.08883],
    ],
    np.float32,
)
_CHANNEL = np.arange(256, dtype=np.float32) / 255
_LINEAR = np.where(
    _CHANNEL <= 0.04045, _CHANNEL / 12.92, ((_CHANNEL + 0.055) / 1.055) ** 2.4
).astype(np.float32)


def shaded_areas(
    before: np.ndarray, after: np.ndarray, changed: np.ndarray, most: float, scale: float
) -> np.ndarray:
    """bool [height, width]: the pixels of areas that changed by more than ``most`` in L*a*b*. RGB,
    uint8 [height, width, 3], before and after; ``changed`` are the pixels that are not equal and
    were not found to be different, ``scale`` is px per CSS px."""
    areas = np.zeros(changed.shape, bool)
    far = np.zeros(changed.shape, bool)
    far[changed] = distances(before[changed], after[changed]) > most
    wide = _opened(far, max(2, round(_STROKE * scale)))
    if not wide.any():
        return areas
    for region in find_regions(wide, max(1, round(CELL * scale))):
        if region.count >= AREA_PX2 * scale**2:
            region.of(areas)[:] = region.of(wide)
    return areas


def distances(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    """Of colours, RGB uint8 [n, 3], in L*a*b*: float32 [n]"""
    x, y, z = _cube_roots(one) - _cube_roots(other)
    return np.sqrt((116 * y) ** 2 + (500 * (x - y)) ** 2 + (200 * (y - z)) ** 2)


def _cube_roots(rgb: np.ndarray) -> np.ndarray:
    """Of X, Y and Z, as L*a*b* takes them: float32 [3, n]"""
    xyz = _XYZ @ _LINEAR[rgb.T]
    small = xyz * np.float32(841 / 108) + np.float32(4 / 29)
    return np.where(xyz > (6 / 29) ** 3, np.cbrt(xyz), small)


def _opened(mask: np.ndarray, edge: int) -> np.ndarray:
    """The pixels of bool [height, width] that are in some square of ``edge`` px with no other."""
    height, width = mask.shape
    if height < edge or width < edge:
        return np.zeros(mask.shape, bool)
    full = _sums(mask, edge) == edge * edge
    # a pixel is in as many squares as begin in the square that ends with it
    padded = np.zeros((height + edge - 1, width + edge - 1), bool)
    padded[edge - 1 : height, edge - 1 : width] = full
    return _sums(padded, edge) > 0


def _sums(mask: np.ndarray, edge: int) -> np.ndarray:
    """Of each square of ``edge`` px that is inside, by its left upper corner."""
    height, width = mask.shape
    sums = np.zeros((height + 1, width + 1), np.int32)
    sums[1:, 1:] = mask.cumsum(axis=0, dtype=np.int32).cumsum(axis=1)
    return sums[edge:, edge:] - sums[:-edge, edge:] - sums[edge:, :-edge] + sums[:-edge, :-edge]
