"""The little of PNG that a recording checks: that a file is one, and how many pixels it claims."""

from __future__ import annotations

import struct

from agentserve.core.errors import RecordingError
from agentserve.core.screens import MAX_PIXELS, MAX_SIDE, Size

_HEAD = struct.Struct(">8sI4sII")  # signature, then the IHDR chunk: length, name, width, height
_SIGNATURE = b"\x89PNG\r\n\x1a\n"


def png_size(data: bytes) -> Size:
    """Width and height of a PNG in px, read from its head; nothing is decoded.

    Raises RecordingError for bytes that are no PNG, and for a picture over the screen limits.
    """
    if len(data) < _HEAD.size:
        raise RecordingError("not a PNG: too short")
    signature, _, chunk, width, height = _HEAD.unpack_from(data)
    if signature != _SIGNATURE or chunk != b"IHDR":
        raise RecordingError("not a PNG")
    if not (0 < width <= MAX_SIDE and 0 < height <= MAX_SIDE and width * height <= MAX_PIXELS):
        raise RecordingError(
            f"a picture of {width}x{height} px; the limit is {MAX_SIDE} px a side and "
            f"{MAX_PIXELS} px in all"
        )
    return Size(width=width, height=height)
