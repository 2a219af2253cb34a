"""Painting over what nobody may see: not the model, not a recording."""

from __future__ import annotations

import io
import math
from collections.abc import Sequence

from PIL import Image

from agentserve.core.config import MIB
from agentserve.core.elements import PageBox
from agentserve.core.screens import Size
from agentserve.vision.screenshots import pixels_of

MASK_COLOUR = (255, 0, 255)
"""Playwright's, for its own masks."""
_MAX_BYTES = 64 * MIB


def masked(png: bytes, masks: Sequence[PageBox], viewport: Size) -> bytes:
    """The picture with the masks painted over, solid; edges are rounded outward.

    Masks are in CSS px of ``viewport``, the picture shows all of it in any size. The very same
    bytes when there is nothing to paint, so that a masked picture stays what it is. Raises
    BadScreenshot for what is no PNG or over the screen limits.
    """
    if not masks:
        return png
    pixels = pixels_of(png, max_bytes=_MAX_BYTES, what="the screenshot", formats=("PNG",))
    height, width = pixels.shape[:2]
    painted = pixels.copy()
    for mask in masks:
        x, y = width / viewport.width, height / viewport.height
        left, right = _inside(mask.x * x, (mask.x + mask.width) * x, width)
        top, bottom = _inside(mask.y * y, (mask.y + mask.height) * y, height)
        painted[top:bottom, left:right] = MASK_COLOUR
    if (painted == pixels).all():
        return png
    out = io.BytesIO()
    Image.fromarray(painted).save(out, "PNG")
    return out.getvalue()


def _inside(begin: float, end: float, limit: int) -> tuple[int, int]:
    """Pixels that an interval touches."""
    if end <= begin:
        return 0, 0
    return math.floor(min(max(begin, 0), limit)), math.ceil(min(max(end, 0), limit))
