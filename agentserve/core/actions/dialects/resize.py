"""The size a picture has when a Qwen-VL model sees it, which is what its coordinates refer to."""

from __future__ import annotations

import math

from agentserve.core.errors import InvalidRequest
from agentserve.core.screens import MAX_SIDE, Size

QWEN_FACTOR = 28
QWEN_MIN_PIXELS = 4 * 28 * 28
"""As in the preprocessor settings of the published Qwen2-VL and Qwen2.5-VL checkpoints."""
QWEN_MAX_PIXELS = 16_384 * 28 * 28
UI_TARS_MIN_PIXELS = 100 * 28 * 28
"""As in the parser of the published UI-TARS code."""
UI_TARS_MAX_PIXELS = 16_384 * 28 * 28
_MAX_RATIO = 200


def smart_resize(
    size: Size, *, factor: int = QWEN_FACTOR, min_pixels: int, max_pixels: int
) -> Size:
    """The rule of Qwen2-VL and Qwen2.5-VL, ``smart_resize`` in qwen_vl_utils.

    transformers has another for sides under half a ``factor``, and the same for all others.

    Each side becomes the nearest multiple of ``factor``. A product over ``max_pixels`` is shrunk
    at the same ratio, sides rounded down; one under ``min_pixels`` grows, rounded up. A half rounds
    to the even multiple, as in Python: a port that rounds it up points elsewhere.

    Raises InvalidRequest when a side is more than 200 times the other, or becomes longer than
    MAX_SIDE.
    """
    sides = (size.width, size.height)
    if max(sides) > _MAX_RATIO * min(sides):
        raise InvalidRequest(f"a picture of {size}: one side is over {_MAX_RATIO} times the other")
    width, height = (max(factor, round(side / factor) * factor) for side in sides)
    if width * height > max_pixels:
        shrink = math.sqrt(size.pixels / max_pixels)
        width, height = (max(factor, int(side / shrink / factor) * factor) for side in sides)
    elif width * height < min_pixels:
        grow = math.sqrt(min_pixels / size.pixels)
        width, height = (math.ceil(side * grow / factor) * factor for side in sides)
    if max(width, height) > MAX_SIDE:
        raise InvalidRequest(f"a picture of {size} becomes {width}x{height}; {MAX_SIDE} is most")
    return Size(width=width, height=height)
