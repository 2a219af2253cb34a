from __future__ import annotations

import io

import numpy as np
import pytest
from PIL import Image

from agentserve.core.elements import PageBox
from agentserve.core.errors import BadScreenshot
from agentserve.core.screens import Size
from agentserve.vision.masks import MASK_COLOUR, masked

VIEWPORT = Size(width=100, height=50)


def noise(width: int, height: int, **options: object) -> bytes:
    pixels = np.random.default_rng(7).integers(0, 200, (height, width, 3), np.uint8)
    out = io.BytesIO()
    Image.fromarray(pixels).save(out, "PNG", **options)
    return out.getvalue()


def pixels(png: bytes) -> np.ndarray:
    with Image.open(io.BytesIO(png)) as image:
        assert image.format == "PNG"
        return np.asarray(image.convert("RGB"))


def box(x: float, y: float, width: float, height: float) -> PageBox:
    return PageBox(x=x, y=y, width=width, height=height)


@pytest.mark.parametrize("factor", [(1, 1), (2, 2), (3, 2)], ids=str)
def test_the_region_is_solid_and_the_rest_is_as_it_was(factor: tuple[int, int]):
    """Pictures of other sizes than the viewport: of a device scale, of a model's token grid."""
    x, y = factor
    png = noise(100 * x, 50 * y)
    after = pixels(masked(png, [box(10, 5, 20, 10)], VIEWPORT))
    expected = pixels(png).copy()
    expected[5 * y : 15 * y, 10 * x : 30 * x] = MASK_COLOUR
    assert (after == expected).all()


def test_edges_between_pixels_are_hidden_whole():
    after = pixels(masked(noise(150, 75), [box(10.3, 5.3, 0.1, 0.1)], VIEWPORT))
    where = np.argwhere((after == MASK_COLOUR).all(axis=2))
    assert [tuple(place) for place in where] == [(7, 15), (8, 15)]


@pytest.mark.parametrize(
    ("mask", "count"),
    [
        (box(-1e9, -1e9, 2e9, 2e9), 5000),
        (box(90, 40, 1e300, 1e300), 100),
        (box(-20, -20, 25, 25), 25),
        (box(100, 50, 10, 10), 0),
        (box(10, 10, 0, 10), 0),
        (box(-50, 0, 40, 10), 0),
    ],
)
def test_masks_that_begin_or_end_outside(mask: PageBox, count: int):
    after = pixels(masked(noise(100, 50), [mask], VIEWPORT))
    assert (after == MASK_COLOUR).all(axis=2).sum() == count


def test_what_is_masked_stays_the_same_bytes():
    """So the recorder's mask and the computer's give one picture, with one hash."""
    masks = [box(10, 5, 20, 10), box(0, 0, 3, 3)]
    once = masked(noise(100, 50), masks, VIEWPORT)
    assert masked(once, masks, VIEWPORT) is once
    png = noise(100, 50)
    assert masked(png, [], VIEWPORT) is png


def test_nothing_of_the_file_but_its_pixels_is_kept():
    from PIL.PngImagePlugin import PngInfo

    notes = PngInfo()
    notes.add_text("Comment", "the password is hunter2")
    png = noise(100, 50, pnginfo=notes)
    assert b"hunter2" in png
    assert b"hunter2" not in masked(png, [box(0, 0, 1, 1)], VIEWPORT)


@pytest.mark.parametrize("data", [b"", b"GIF89a", noise(100, 50)[:300]], ids=["", "gif", "cut off"])
def test_what_cannot_be_masked_is_refused(data: bytes):
    with pytest.raises(BadScreenshot):
        masked(data, [box(0, 0, 1, 1)], VIEWPORT)
