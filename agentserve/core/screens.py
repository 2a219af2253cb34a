"""Sizes, and the one place where CSS pixels and model pixels are converted into each other.

The model looks at a picture whose sides are multiples of its token grid; the page is laid out in
CSS pixels. ``ScreenSpace`` holds both sizes of one session::

    css   160 x 210   the viewport: actions are performed here
    model 224 x 280   scale 1.4, each side rounded to the 28 px grid: the model points here
"""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from agentserve.core.errors import InvalidRequest
from agentserve.core.model import Wire

MAX_SIDE = 8192
MAX_PIXELS = 16_777_216
"""A screenshot with more pixels is refused before it is decoded."""


class Size(Wire):
    """Width and height in pixels; of which space, the field that holds it says."""

    width: Annotated[int, Field(ge=1, le=MAX_SIDE)]
    height: Annotated[int, Field(ge=1, le=MAX_SIDE)]

    def __str__(self) -> str:
        return f"{self.width}x{self.height}"

    @property
    def pixels(self) -> int:
        return self.width * self.height


class ScreenSpace(Wire):
    """The two coordinate spaces of a session's screens."""

    css: Size
    model: Size
    scale: float
    grid: int
    """Edge of one visual token, in model px."""

    @property
    def visual_tokens(self) -> int:
        """Merged visual tokens of one whole screen."""
        return (self.model.width // self.grid) * (self.model.height // self.grid)

    @property
    def device(self) -> Size:
        """What a browser captures at a device pixel ratio of ``scale``."""
        return Size(
            width=round(self.css.width * self.scale), height=round(self.css.height * self.scale)
        )

    def accepts(self) -> tuple[Size, ...]:
        """The sizes a screenshot may have: model px, device px, CSS px, without repeats."""
        return tuple(dict.fromkeys((self.model, self.device, self.css)))

    def to_css(self, x: float, y: float) -> tuple[int, int]:
        """A model pixel's centre in CSS px, always inside the viewport."""
        return (
            min(self.css.width - 1, int((x + 0.5) * self.css.width / self.model.width)),
            min(self.css.height - 1, int((y + 0.5) * self.css.height / self.model.height)),
        )

    def to_model(self, x: float, y: float) -> tuple[int, int]:
        """A CSS pixel's centre in model px, always inside the screen."""
        return (
            min(self.model.width - 1, int((x + 0.5) * self.model.width / self.css.width)),
            min(self.model.height - 1, int((y + 0.5) * self.model.height / self.css.height)),
        )

    def distance_to_css(self, dx: float, dy: float) -> tuple[int, int]:
        """A distance in model px as one in CSS px, rounded; a distance never becomes nothing."""

        def convert(distance: float, css: int, model: int) -> int:
            pixels = round(distance * css / model)
            return pixels or (distance > 0) - (distance < 0)

        return (
            convert(dx, self.css.width, self.model.width),
            convert(dy, self.css.height, self.model.height),
        )


def screen_space(viewport: Size, scale: float, grid: int) -> ScreenSpace:
    """The spaces of a session: each side of the scaled viewport rounded to the token grid.

    Raises InvalidRequest when the scaled viewport or the model's screen would be empty or over the
    pixel limit.
    """
    scaled = (viewport.width * scale, viewport.height * scale)
    if not all(1 <= side <= MAX_SIDE for side in scaled):  # written so that NaN is refused too
        raise InvalidRequest(
            f"viewport {viewport} at scale {scale:g} is {scaled[0]:g}x{scaled[1]:g} px; "
            f"the limit is 1 to {MAX_SIDE} px a side",
            hint="choose another scale or viewport",
        )
    width, height = (max(1, round(side / grid)) * grid for side in scaled)
    if max(width, height) > MAX_SIDE or width * height > MAX_PIXELS:
        raise InvalidRequest(
            f"viewport {viewport} at scale {scale:g} gives a screen of {width}x{height} px; "
            f"the limit is {MAX_SIDE} px a side and {MAX_PIXELS} px in all",
            hint="lower the scale or the viewport",
        )
    return ScreenSpace(css=viewport, model=Size(width=width, height=height), scale=scale, grid=grid)
