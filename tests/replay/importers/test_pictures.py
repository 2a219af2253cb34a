import io

import numpy as np
import pytest
from PIL import Image
from replay.replay_builders import make_png

from agentserve.core.errors import RecordingError
from agentserve.core.screens import MAX_SIDE
from agentserve.replay.bundle.format import MAX_SCREENSHOT_BYTES
from agentserve.replay.importers.pictures import png_of


def encoded(format: str, image: Image.Image | None = None, **options) -> bytes:
    out = io.BytesIO()
    (image or Image.new("RGB", (40, 30), (200, 30, 90))).save(out, format, **options)
    return out.getvalue()


def test_a_png_stays_as_it_is():
    png = make_png(5)
    assert png_of(png) is png


@pytest.mark.parametrize("format", ["JPEG", "WEBP"])
def test_others_become_png_with_the_same_pixels(format):
    data = encoded(format)
    image = Image.open(io.BytesIO(png_of(data)))
    assert (image.format, image.mode, image.size) == ("PNG", "RGB", (40, 30))
    before = Image.open(io.BytesIO(data)).convert("RGB")
    assert np.array_equal(np.asarray(image), np.asarray(before))


def test_a_jpeg_is_turned_the_way_up_that_viewers_show_it():
    exif = Image.Exif()
    exif[0x0112] = 6
    image = Image.open(io.BytesIO(png_of(encoded("JPEG", exif=exif))))
    assert image.size == (30, 40)


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "is empty"),
        (b"GIF89a and more", "not a PNG, JPEG or WebP"),
        (encoded("GIF"), "not a PNG, JPEG or WebP"),
        (make_png(1)[:80], "damaged or cut off"),
        (encoded("JPEG")[:-20], "damaged or cut off"),
        (make_png(1) + b"\0" * MAX_SCREENSHOT_BYTES, "the limit is"),
        (encoded("PNG", Image.new("L", (MAX_SIDE + 1, 1))), "the limit is"),
        (encoded("PNG", Image.new("L", (8000, 8000))), "the limit is|too many pixels"),
        (
            encoded("WEBP", save_all=True, append_images=[Image.new("RGB", (40, 30))]),
            "an animation of 2",
        ),
    ],
    ids=["empty", "text", "gif", "cut-png", "cut-jpeg", "long", "wide", "bomb", "animated"],
)
def test_what_is_no_screenshot_is_refused_by_name(data, words):
    with pytest.raises(RecordingError, match=f"step_1.png.*({words})"):
        png_of(data, "step_1.png")


def test_what_grows_too_large_as_png_is_refused():
    noise = np.random.default_rng(0).integers(0, 256, (2600, 2600, 3), dtype=np.uint8)
    data = encoded("JPEG", Image.fromarray(noise), quality=60)
    assert len(data) < MAX_SCREENSHOT_BYTES
    with pytest.raises(RecordingError, match="as PNG"):
        png_of(data)
