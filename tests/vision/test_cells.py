from __future__ import annotations

import io

import numpy as np
import pytest
from PIL import Image

from agentserve.core.errors import InvalidRequest
from agentserve.core.screens import Size
from agentserve.vision.cells import (
    as_pixels,
    as_png,
    cell_boxes,
    changed_cells,
    check_cell,
    cut,
    identity,
    part,
    quick_png,
)


def screen(seed: int = 0, height: int = 140, width: int = 196) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, (height, width, 3), dtype=np.uint8)


@pytest.mark.parametrize("cell", [28, 56, 112, 224])
def test_cells_tile_the_screen(cell):
    times = np.zeros((140, 196), int)
    for box in cell_boxes(Size(width=196, height=140), cell):
        part(times, box)[:] += 1
        assert box.width <= cell and box.height <= cell
        assert (box.width % 28, box.height % 28) == (0, 0)
    assert (times == 1).all()


def test_cells_are_in_raster_order_and_smaller_at_the_border():
    boxes = cell_boxes(Size(width=140, height=84), 56)
    assert [(b.x, b.y) for b in boxes] == [(0, 0), (56, 0), (112, 0), (0, 56), (56, 56), (112, 56)]
    assert [(b.width, b.height) for b in boxes[2:4]] == [(28, 56), (56, 28)]


@pytest.mark.parametrize(("cell", "grid"), [(112, 28), (28, 28), (128, 32), (96, 32)])
def test_cells_on_the_grid(cell, grid):
    check_cell(cell, grid)


@pytest.mark.parametrize(("cell", "grid"), [(112, 32), (27, 28), (0, 28), (-28, 28), (42, 28)])
def test_cells_beside_the_grid_are_refused_with_good_ones(cell, grid):
    with pytest.raises(InvalidRequest) as caught:
        check_cell(cell, grid)
    assert str(2 * grid) in caught.value.hint


@pytest.mark.parametrize("cell", [28, 56, 112])
@pytest.mark.parametrize("seed", range(5))
def test_any_pixel_that_differs_changes_its_cell_only(seed, cell):
    random = np.random.default_rng(seed)
    before = screen(seed)
    now = before.copy()
    wanted = set()
    for _ in range(3):
        y, x, channel = (int(random.integers(n)) for n in before.shape)
        now[y, x, channel] = before[y, x, channel] ^ 1
        wanted.add((y // cell, x // cell))
    assert {(int(y), int(x)) for y, x in np.argwhere(changed_cells(before, now, cell))} == wanted


def test_cutting_after_a_screen_gives_what_cutting_anew_does():
    before, now = screen(1), screen(1)
    now[60:70, 20:90] = 0
    last = cut(before, 56)
    assert cut(now, 56, last).identities == cut(now, 56).identities != last.identities
    assert cut(before, 56, last).identities == last.identities
    assert np.array_equal(cut(now, 56, last).changed_since(last), changed_cells(before, now, 56))


def test_identity_is_of_pixels_and_size():
    pixels = screen(2, 56, 28)
    assert identity(pixels) == identity(np.asfortranarray(pixels))
    assert identity(pixels) != identity(pixels.reshape(28, 56, 3))
    assert identity(pixels) != identity(pixels[:, :, ::-1])
    assert identity(pixels[:28]) != identity(pixels)


def test_equal_cells_are_equal_wherever_they_are():
    pixels = screen(3)
    pixels[56:112, 112:168] = pixels[:56, :56]
    identities = cut(pixels, 56).identities
    assert identities[0] == identities[6]


@pytest.mark.parametrize("written", [as_png, quick_png])
@pytest.mark.parametrize("box", [(28, 84, 56, 112), (0, 1, 0, 1), (0, 140, 0, 196), (7, 9, 3, 100)])
def test_png_and_back(written, box):
    top, bottom, left, right = box
    pixels = screen(4)[top:bottom, left:right]
    png = written(pixels)
    assert np.array_equal(as_pixels(png), pixels)
    assert written(pixels.copy()) == png


def test_other_pictures_are_read_as_well():
    jpeg = io.BytesIO()
    Image.fromarray(screen()).save(jpeg, "JPEG")
    assert as_pixels(jpeg.getvalue()).shape == (140, 196, 3)
