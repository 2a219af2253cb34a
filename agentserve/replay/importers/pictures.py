"""Pictures of other tools as the PNGs that a bundle holds."""

from __future__ import annotations

import io

from PIL import Image

from agentserve.core.errors import BadScreenshot, RecordingError
from agentserve.replay.bundle.format import MAX_SCREENSHOT_BYTES
from agentserve.vision.screenshots import pixels_of

_PNG = b"\x89PNG\r\n\x1a\n"


def png_of(data: bytes, what: str = "the picture") -> bytes:
    """A PNG of a PNG, JPEG or WebP; ``what`` names the picture in errors.

    A PNG stays as it is, byte for byte, so that an export gives back what was taken. The others are
    put on white, the way up a viewer shows them. Format and size are read from the header before
    anything is decoded. Raises RecordingError for anything else, for what is damaged, animated or
    over the limits of a screenshot.
    """
    try:
        pixels = pixels_of(data, max_bytes=MAX_SCREENSHOT_BYTES, what=what)
    except BadScreenshot as error:
        raise RecordingError(error.message, hint=error.hint) from error
    if data.startswith(_PNG):
        return data
    out = io.BytesIO()
    Image.fromarray(pixels).save(out, "PNG", compress_level=1)
    png = out.getvalue()
    if len(png) > MAX_SCREENSHOT_BYTES:
        raise RecordingError(
            f"{what} has {len(png)} bytes as PNG; {MAX_SCREENSHOT_BYTES} is most",
            hint="save it smaller, or with fewer colours",
        )
    return png
