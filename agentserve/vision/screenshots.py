"""Opens a screenshot that somebody sent, and makes the picture the model gets from it.

The bytes are hostile: the format and the number of pixels are read from the header first, and only
a picture within the limits is decoded.
"""

from __future__ import annotations

import io
import struct
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
from PIL import Image, ImageOps

from agentserve.core.blobs import sha256_of
from agentserve.core.errors import BadScreenshot
from agentserve.core.plans import Sha256
from agentserve.core.screens import MAX_PIXELS, MAX_SIDE, ScreenSpace, Size

FORMATS = ("PNG", "JPEG", "WEBP")
# Pillow promises nothing about what it raises on hostile input: its own errors are OSErrors, the
# rest comes from parsers that meet numbers, names and lengths nobody thought of. MemoryError is
# left out, because that one is this machine's.
_HOSTILE = (
    ArithmeticError,
    AttributeError,
    EOFError,
    LookupError,
    OSError,
    RuntimeError,
    SyntaxError,
    TypeError,
    ValueError,
    struct.error,
    zlib.error,
)
_BOMB = (Image.DecompressionBombError, Image.DecompressionBombWarning)
# What may make a decoder show other colours, or another way up, than the bare samples.
_RESHAPING = (
    "transparency",
    "icc_profile",
    "exif",
    "Raw profile type exif",
    "xmp",
    "XML:com.adobe.xmp",
)
_PNG = b"\x89PNG\r\n"
_PNG_DEPTH = 24
"""Offset of the bits per sample in a PNG file."""


@dataclass(frozen=True, eq=False)
class Screenshot:
    """An accepted screenshot."""

    data: bytes
    """As it was sent; of a patch, a PNG of what it stands for."""
    sha256: Sha256
    """Of ``data``."""
    size: Size
    """The way up a viewer shows it."""
    model_image: bytes
    """8-bit RGB without transparency, of exactly ``space.model``: ``data`` itself when it is that
    already, else a PNG made from it."""
    model_sha256: Sha256
    """Of ``model_image``."""
    decoded: Image.Image
    """The model image, decoded."""

    @property
    def exact(self) -> bool:
        """Whether every decoder makes the same pixels of the model image."""
        return self.model_image.startswith(_PNG)

    def pixels(self) -> np.ndarray:
        """Of the model image: uint8 [height, width, 3]."""
        return np.asarray(self.decoded)


def open_screenshot(
    data: bytes, space: ScreenSpace, *, max_bytes: int, sha256: Sha256 | None = None
) -> Screenshot:
    """Check a screenshot against a session's screen and make its model image. ``sha256`` is that of
    ``data``, if it is known.

    Takes milliseconds of CPU: call it in a thread. Raises BadScreenshot.
    """
    with _opened(data, max_bytes, "the screenshot", FORMATS) as image:
        size = _accepted_size(image.size, space)
        plain = _is_plain(image, data)
        page = image if plain else _flat(image)
        decoded = _sized(page, space.model)
        return _screenshot(data, sha256, size, decoded, as_sent=decoded is image)


def screenshot_of(pixels: np.ndarray, space: ScreenSpace) -> Screenshot:
    """The same of RGB pixels, uint8 [height, width, 3]."""
    page = Image.fromarray(pixels)
    size = _accepted_size(page.size, space)
    data = _as_png(page)
    decoded = _sized(page, space.model)
    return _screenshot(data, None, size, decoded, as_sent=decoded is page)


def _screenshot(
    data: bytes, sha256: Sha256 | None, size: Size, decoded: Image.Image, *, as_sent: bool
) -> Screenshot:
    """``as_sent``: whether ``data`` is the model image."""
    sha256 = sha256 or sha256_of(data)
    if as_sent:
        return Screenshot(data, sha256, size, data, sha256, decoded)
    model_image = _as_png(decoded)
    return Screenshot(data, sha256, size, model_image, sha256_of(model_image), decoded)


def pixels_of(
    data: bytes,
    *,
    max_bytes: int,
    what: str,
    formats: Sequence[str] = FORMATS,
    size: tuple[int, int] | None = None,
) -> np.ndarray:
    """The RGB pixels that a viewer sees, uint8 [height, width, 3], with nothing behind them but
    white. ``what`` names the picture in errors; with a ``size`` (width and height), it must have
    that one, which is looked at before it is decoded. Raises BadScreenshot."""
    with _opened(data, max_bytes, what, formats, size) as image:
        return np.array(image if _is_plain(image, data) else _flat(image))


@contextmanager
def _opened(
    data: bytes,
    max_bytes: int,
    what: str,
    formats: Sequence[str],
    size: tuple[int, int] | None = None,
) -> Iterator[Image.Image]:
    """A picture that was checked, decoded and turned the way up a viewer shows it."""
    if not data:
        raise BadScreenshot(f"{what} is empty", hint="send the bytes of a PNG, JPEG or WebP")
    if len(data) > max_bytes:
        raise BadScreenshot(
            f"{what} has {len(data)} bytes, the limit is {max_bytes}",
            hint="send it as PNG at the model's size, or as JPEG or WebP",
        )
    image = _read_header(data, what, formats)
    try:
        with image:
            _check_limits(image, what)
            _check_size(image, what, size)
            ImageOps.exif_transpose(image, in_place=True)  # decodes it, too
            _check_size(image, what, size)
            yield image
    except (*_HOSTILE, *_BOMB) as error:
        raise BadScreenshot(
            f"{what}'s {image.format} data is damaged or cut off: {error}",
            hint="send the whole file, as a browser or Pillow writes it",
        ) from error


def _read_header(data: bytes, what: str, formats: Sequence[str]) -> Image.Image:
    try:
        return Image.open(io.BytesIO(data), formats=formats)
    except _BOMB as error:
        raise BadScreenshot(
            f"{what} has too many pixels; the limit is {MAX_PIXELS}",
            hint="send the visible part of the page only, not the full page",
        ) from error
    except _HOSTILE as error:
        names = " or ".join((", ".join(formats[:-1]), formats[-1])) if formats[1:] else formats[0]
        raise BadScreenshot(
            f"{what} is not a {names.replace('WEBP', 'WebP')} picture",
            hint="send the bytes of the file themselves, not a data URL or a path",
        ) from error


def _check_limits(image: Image.Image, what: str) -> None:
    """Refuse by the header what would be too much to decode."""
    width, height = image.size
    if max(width, height) > MAX_SIDE or width * height > MAX_PIXELS:
        raise BadScreenshot(
            f"{what} has {width}x{height} pixels; the limit is {MAX_SIDE} a side and "
            f"{MAX_PIXELS} in all",
            hint="send the visible part of the page only, not the full page",
        )
    if getattr(image, "n_frames", 1) > 1:
        raise BadScreenshot(
            f"{what} is an animation of {image.n_frames} frames",
            hint="send a still picture",
        )


def _check_size(image: Image.Image, what: str, size: tuple[int, int] | None) -> None:
    if size is not None and image.size != size:
        raise BadScreenshot(
            f"{what} has {image.width}x{image.height} pixels, not {size[0]}x{size[1]}",
            hint="send the picture of exactly its box",
        )


def _accepted_size(sent: tuple[int, int], space: ScreenSpace) -> Size:
    size = Size(width=sent[0], height=sent[1])
    accepted = space.accepts()
    if size not in accepted:
        sizes = " or ".join(str(one) for one in accepted)
        raise BadScreenshot(
            f"the screenshot is {size}, this session's screen is {sizes}",
            hint="capture the viewport the session was created with, in CSS scale",
            details={"accepted": [one.model_dump() for one in accepted]},
        )
    return size


def _is_plain(image: Image.Image, data: bytes) -> bool:
    """Whether every decoder sees the same opaque 8-bit RGB picture in these bytes."""
    return (
        image.format in FORMATS  # Pillow opens a JPEG with several pictures in it as MPO
        and image.mode == "RGB"
        and not any(key in image.info for key in _RESHAPING)
        and (image.format != "PNG" or data[_PNG_DEPTH] == 8)
    )


def _flat(image: Image.Image) -> Image.Image:
    """The picture on a white page. A colour profile is dropped without being applied."""
    if image.mode.startswith("I"):
        image = _from_16_bits(image)
    layer = image.convert("RGBA")
    page = Image.new("RGB", image.size, "white")
    page.paste(layer, mask=layer)
    return page


def _sized(page: Image.Image, size: Size) -> Image.Image:
    if page.size != (size.width, size.height):
        page = page.resize((size.width, size.height), Image.Resampling.LANCZOS)
    return page


def _as_png(page: Image.Image) -> bytes:
    out = io.BytesIO()
    # Level 1: a third of the default's time for a few percent more bytes that stay on this machine.
    page.save(out, "PNG", compress_level=1)
    return out.getvalue()


def _from_16_bits(image: Image.Image) -> Image.Image:
    """A 16-bit grey picture in 8 bits: Pillow's own conversion clips instead of scaling."""
    transparent = image.info.pop("transparency", None)
    wide = image.convert("I")
    grey = wide.point([value >> 8 for value in range(65536)], "L")
    if transparent is not None:
        grey.putalpha(wide.point([255 * (v != transparent) for v in range(65536)], "L"))
    return grey
