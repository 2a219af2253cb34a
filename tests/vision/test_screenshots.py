from __future__ import annotations

import io
import struct
import zlib

import numpy as np
import pytest
from PIL import Image

from agentserve.core.blobs import sha256_of
from agentserve.core.errors import BadScreenshot
from agentserve.core.screens import Size, screen_space
from agentserve.vision.screenshots import open_screenshot

SPACE = screen_space(Size(width=160, height=210), 1.4, 28)  # model 224x280, device 224x294
LIMIT = 1_000_000


def encoded(width: int, height: int, kind: str = "PNG", mode: str = "RGB", **save) -> bytes:
    out = io.BytesIO()
    noise = Image.effect_noise((width, height), 80).convert(mode)
    noise.save(out, kind, **save)
    return out.getvalue()


def saved(image: Image.Image, kind: str = "PNG", **save) -> bytes:
    out = io.BytesIO()
    image.save(out, kind, **save)
    return out.getvalue()


def raw_png(width: int, height: int, depth: int, color: int, pixel: bytes, *chunks) -> bytes:
    """A PNG as no library writes it: every pixel the same (at least 8 bits), with extra chunks."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        crc = struct.pack(">I", zlib.crc32(kind + data))
        return struct.pack(">I", len(data)) + kind + data + crc

    head = struct.pack(">IIBBBBB", width, height, depth, color, 0, 0, 0)
    rows = zlib.compress((b"\0" + pixel * width) * height)
    extra = b"".join(chunk(kind, data) for kind, data in chunks)
    return b"".join(
        [
            b"\x89PNG\r\n\x1a\n",
            chunk(b"IHDR", head),
            extra,
            chunk(b"IDAT", rows),
            chunk(b"IEND", b""),
        ]
    )


def png_header(width: int, height: int) -> bytes:
    """A PNG that claims a size and has next to no data."""
    small = raw_png(1, 1, 8, 2, b"\0\0\0")
    head = b"IHDR" + struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return small[:12] + head + struct.pack(">I", zlib.crc32(head)) + small[33:]


def oriented(value: int) -> Image.Exif:
    exif = Image.Exif()
    exif[0x112] = value
    return exif


def model_pixels(data: bytes) -> Image.Image:
    """The picture that the model gets, after the checks that hold for every one of them."""
    shot = open_screenshot(data, SPACE, max_bytes=LIMIT)
    with Image.open(io.BytesIO(shot.model_image)) as image:
        assert (image.mode, image.size) == ("RGB", (224, 280))
        assert not {"transparency", "icc_profile", "exif", "xmp"} & image.info.keys()
        image.load()
    assert np.array_equal(shot.pixels(), np.asarray(image))
    assert shot.exact == (image.format == "PNG")
    return image


@pytest.mark.parametrize("kind", ["PNG", "JPEG", "WEBP"])
def test_model_size_is_kept_byte_for_byte(kind):
    data = encoded(224, 280, kind)
    shot = open_screenshot(data, SPACE, max_bytes=LIMIT)
    assert shot.model_image is data
    assert shot.sha256 == sha256_of(data)
    assert shot.size == SPACE.model


@pytest.mark.parametrize("size", [(160, 210), (224, 294)])
@pytest.mark.parametrize(("kind", "mode"), [("PNG", "RGBA"), ("PNG", "P"), ("JPEG", "L")])
def test_other_accepted_sizes_become_an_rgb_png_of_the_model_size(size, kind, mode):
    shot = open_screenshot(encoded(*size, kind, mode), SPACE, max_bytes=LIMIT)
    with Image.open(io.BytesIO(shot.model_image)) as image:
        assert (image.format, image.mode, image.size) == ("PNG", "RGB", (224, 280))


def test_resizing_is_deterministic_and_keeps_the_colours():
    out = io.BytesIO()
    Image.new("RGB", (160, 210), (10, 200, 30)).save(out, "PNG")
    first = open_screenshot(out.getvalue(), SPACE, max_bytes=LIMIT).model_image
    assert first == open_screenshot(out.getvalue(), SPACE, max_bytes=LIMIT).model_image
    with Image.open(io.BytesIO(first)) as image:
        assert image.getpixel((100, 100)) == (10, 200, 30)


@pytest.mark.parametrize("size", [(224, 280), (160, 210)])
@pytest.mark.parametrize(
    ("depth", "color", "pixel", "chunks", "seen"),
    [
        (8, 0, b"\x80", [], (128, 128, 128)),
        (8, 0, b"\x80", [(b"tRNS", b"\x00\x80")], (255, 255, 255)),
        (16, 0, b"\x80\x00", [], (128, 128, 128)),
        (16, 0, b"\x80\x00", [(b"tRNS", b"\x80\x00")], (255, 255, 255)),
        (16, 0, b"\x80\x00", [(b"tRNS", b"\x80\x01")], (128, 128, 128)),
        (16, 2, b"\x80\x00\x10\x00\xff\xff", [], (128, 16, 255)),
        (16, 2, b"\x80\x00" * 3, [(b"tRNS", b"\x12\x34" * 3)], (128, 128, 128)),
        (8, 2, b"\x01\x02\x03", [(b"tRNS", b"\0\1\0\2\0\3")], (255, 255, 255)),
        (8, 4, b"\x00\x80", [], (127, 127, 127)),
        (8, 6, b"\xff\x00\x00\x00", [], (255, 255, 255)),
        (8, 6, b"\xff\x00\x00\x80", [], (255, 127, 127)),
        (8, 6, b"\x0a\xc8\x1e\xff", [], (10, 200, 30)),
        (8, 3, b"\x01", [(b"PLTE", b"\0\0\0\x0a\xc8\x1e")], (10, 200, 30)),
        (8, 3, b"\x01", [(b"PLTE", b"\0" * 6), (b"tRNS", b"\xff\0")], (255, 255, 255)),
    ],
)
def test_every_kind_of_png_looks_the_same_at_every_size(size, depth, color, pixel, chunks, seen):
    image = model_pixels(raw_png(*size, depth, color, pixel, *chunks))
    assert {image.getpixel(at) for at in [(0, 0), (100, 100), (223, 279)]} == {seen}


@pytest.mark.parametrize("size", [(224, 280), (160, 210)])
@pytest.mark.parametrize("transparent", [None, 0, 1])
def test_one_bit_pictures_are_converted(size, transparent):
    save = {} if transparent is None else {"transparency": transparent}
    image = model_pixels(saved(Image.new("1", size, 1), **save))
    assert image.getpixel((100, 100)) == (255, 255, 255)


@pytest.mark.parametrize("size", [(224, 280), (160, 210)])
def test_cmyk_is_converted(size):
    red = Image.new("CMYK", size, (0, 255, 255, 0))
    assert model_pixels(saved(red, "JPEG", quality=100)).getpixel((9, 9)) == (255, 0, 0)


@pytest.mark.parametrize("kind", ["PNG", "JPEG", "WEBP"])
@pytest.mark.parametrize(("width", "height"), [(224, 280), (160, 210)])
def test_a_turned_picture_is_turned_back(kind, width, height):
    """Orientation 6: the file's left side is the top of the picture."""
    turned = Image.new("RGB", (height, width), "white")
    turned.paste("black", (0, 0, height // 2, width))
    data = saved(turned, kind, exif=oriented(6))
    assert open_screenshot(data, SPACE, max_bytes=LIMIT).size == Size(width=width, height=height)
    image = model_pixels(data)
    assert max(image.getpixel((112, 20))) < 10 and min(image.getpixel((112, 260))) > 245
    upright = saved(Image.new("RGB", (width, height)), kind, exif=oriented(6))
    with pytest.raises(BadScreenshot, match=f"{height}x{width}, this session's screen is"):
        open_screenshot(upright, SPACE, max_bytes=LIMIT)


@pytest.mark.parametrize("save", [{"exif": oriented(1)}, {"icc_profile": b"profile"}])
def test_metadata_that_may_change_the_look_does_not_reach_the_model(save):
    picture = Image.effect_noise((224, 280), 80).convert("RGB")
    data = saved(picture, **save)
    assert open_screenshot(data, SPACE, max_bytes=LIMIT).model_image != data
    assert model_pixels(data).tobytes() == picture.tobytes()


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "empty"),
        (b"hello", "not a PNG, JPEG or WebP"),
        (b"<svg xmlns='http://www.w3.org/2000/svg'/>", "not a PNG, JPEG or WebP"),
        (encoded(160, 210, "GIF"), "not a PNG, JPEG or WebP"),
        (encoded(160, 210, "BMP"), "not a PNG, JPEG or WebP"),
        (encoded(160, 210)[:20], "not a PNG, JPEG or WebP"),
        (encoded(160, 210)[:60], "damaged or cut off|not a PNG"),
        (encoded(160, 210)[:-2000], "damaged or cut off"),
        (encoded(160, 210, "JPEG")[:-2000], "damaged or cut off"),
        (encoded(160, 210, "WEBP")[:-2000], "damaged or cut off|not a PNG"),
        (encoded(161, 210), "161x210, this session's screen is 224x280 or 224x294 or 160x210"),
        (encoded(160, 210) * 40, "bytes, the limit is"),
    ],
    ids=[
        "empty",
        "text",
        "svg",
        "gif",
        "bmp",
        "header-only",
        "cut-early",
        "cut-png",
        "cut-jpeg",
        "cut-webp",
        "other-size",
        "too-many-bytes",
    ],  # fmt: skip
)
def test_what_is_no_screenshot_is_refused(data, words):
    with pytest.raises(BadScreenshot, match=words) as caught:
        open_screenshot(data, SPACE, max_bytes=LIMIT)
    assert caught.value.hint


@pytest.mark.parametrize(
    "size", [(5000, 5000), (9000, 10), (40_000, 40_000), (2**31 - 1, 2**31 - 1)]
)
def test_too_many_pixels_are_refused_by_the_header_alone(size):
    with pytest.raises(BadScreenshot, match="pixels"):
        open_screenshot(png_header(*size), SPACE, max_bytes=LIMIT)


def test_animations_are_refused():
    frames = [Image.new("RGB", (160, 210), color) for color in ("red", "blue", "green")]
    for kind in ("PNG", "WEBP"):
        out = io.BytesIO()
        frames[0].save(out, kind, save_all=True, append_images=frames[1:])
        with pytest.raises(BadScreenshot, match="animation"):
            open_screenshot(out.getvalue(), SPACE, max_bytes=LIMIT)


@pytest.mark.filterwarnings("ignore:::PIL")  # as in the router: Pillow may grumble, no more
@pytest.mark.parametrize(
    "data",
    [
        encoded(160, 210),
        encoded(160, 210, "JPEG", exif=oriented(6)),
        encoded(160, 210, "WEBP"),
        encoded(160, 210, "PNG", "P", transparency=bytes(range(256)), exif=oriented(3)),
        encoded(160, 210, "PNG", "1", transparency=1),
        raw_png(160, 210, 16, 0, b"\x80\x00", (b"tRNS", b"\x12\x34")),
        raw_png(160, 210, 16, 2, b"\x80\x00" * 3, (b"tRNS", b"\x12\x34" * 3)),
    ],
    ids=["png", "jpeg", "webp", "palette", "1-bit", "16-bit-grey", "16-bit-rgb"],
)
def test_damaged_bytes_never_raise_anything_else(data):
    # The first bytes are where the structure is; after them, a sample.
    for position in [*range(min(len(data), 120)), *range(120, len(data), len(data) // 100 + 1)]:
        damaged = bytearray(data)
        damaged[position] ^= 0xFF
        try:
            open_screenshot(bytes(damaged), SPACE, max_bytes=LIMIT)
        except BadScreenshot as error:
            assert error.message
