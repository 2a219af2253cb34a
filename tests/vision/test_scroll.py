from __future__ import annotations

import numpy as np
import pytest

from agentserve.vision.scroll import find_scroll

GRID = 28


def page(seed: int, height: int = 280, width: int = 336) -> np.ndarray:
    """Text on white: most lines of pixels are there many times."""
    random = np.random.default_rng(seed)
    pixels = np.full((height, width, 3), 255, np.uint8)
    for top in range(10, height - 12, 24):
        pixels[top : top + 10, 60 : int(random.integers(80, width))] = random.integers(
            0, 255, (10, 1, 3), dtype=np.uint8
        )
    return pixels


def shifted(pixels: np.ndarray, dy: int, rows: slice, columns: slice, seed: int = 99):
    """The screen after the content of an area moved down by dy, with new content behind it."""
    now = pixels.copy()
    area = pixels[rows, columns]
    moved = page(seed, *area.shape[:2])
    if dy > 0:
        moved[dy:] = area[:-dy]
    else:
        moved[:dy] = area[-dy:]
    now[rows, columns] = moved
    return now


@pytest.mark.parametrize("dy", [-112, -84, -28, 28, 56])
@pytest.mark.parametrize("seed", range(3))
def test_a_vertical_move_inside_a_page_is_found(seed, dy):
    before = page(seed)
    before[40:, :50] = np.random.default_rng(seed).integers(0, 255, (240, 50, 3))  # a sidebar
    now = shifted(before, dy, slice(40, 280), slice(50, 336))
    scroll = find_scroll(before, now, GRID)
    assert scroll is not None and (scroll.dx, scroll.dy) == (0, dy)
    assert scroll.box.height >= 240 - abs(dy) - 24
    assert np.array_equal(_area(now, scroll.box), _area(before, scroll.source))


def test_a_horizontal_move_is_found():
    before = page(5).swapaxes(0, 1).copy()
    now = shifted(page(5), 56, slice(0, 280), slice(0, 336)).swapaxes(0, 1).copy()
    scroll = find_scroll(before, now, GRID)
    assert scroll is not None and (scroll.dx, scroll.dy) == (56, 0)
    assert np.array_equal(_area(now, scroll.box), _area(before, scroll.source))


@pytest.mark.parametrize("dy", [-30, -100, 14])
def test_moves_beside_the_grid_are_of_no_use(dy):
    before = page(1)
    assert find_scroll(before, shifted(before, dy, slice(0, 280), slice(0, 336)), GRID) is None


@pytest.mark.parametrize("seed", range(3))
def test_what_did_not_move_is_no_scroll(seed):
    before = np.random.default_rng(seed).integers(0, 256, (140, 140, 3), dtype=np.uint8)
    assert find_scroll(before, before.copy(), GRID) is None
    caret = before.copy()
    caret[60:70, 50] ^= 255
    assert find_scroll(before, caret, GRID) is None
    other = np.random.default_rng(seed + 50).integers(0, 256, (140, 140, 3), dtype=np.uint8)
    assert find_scroll(before, other, GRID) is None


def _area(pixels, box):
    return pixels[box.y : box.y + box.height, box.x : box.x + box.width]
