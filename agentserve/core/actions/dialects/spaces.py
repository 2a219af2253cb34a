"""What the numbers of a dialect mean, and the pixels of the screen that they name."""

from __future__ import annotations

import math
from typing import Literal, Self

from pydantic import model_validator

from agentserve.core.errors import BadAction
from agentserve.core.model import Wire
from agentserve.core.screens import ScreenSpace, Size

Point = tuple[int, int]
_EXTENT = {"fraction": 1, "thousandth": 1000}


class CoordinateSpace(Wire):
    """Numbers over a screen. They are converted by the centres of pixels, so that a pixel of a
    smaller picture becomes the middle of those it stands for, and always end inside the screen."""

    unit: Literal["fraction", "thousandth", "pixel"]
    """0 to 1 or 0 to 1000 from edge to edge, ends included; or pixels of ``image``."""
    image: Size | None = None
    screen: Size
    """What actions are read in and written from: model px, or CSS px where a recording is taken
    over."""

    @model_validator(mode="after")
    def _one(self) -> Self:
        if (self.image is None) == (self.unit == "pixel"):
            raise ValueError("image goes with the unit pixel, and only with it")
        return self

    @property
    def extent(self) -> tuple[int, int]:
        """Where the numbers end, to the right and below."""
        if self.image is not None:
            return self.image.width, self.image.height
        return _EXTENT[self.unit], _EXTENT[self.unit]

    def to_screen(self, x: float, y: float) -> Point:
        """The pixel of the screen. Raises BadAction for a point that is not on it."""
        width, height = self.extent
        if not (self._holds(x, width) and self._holds(y, height)):
            last = 1 if self.image is not None else 0
            raise BadAction(
                f"the point ({x:g}, {y:g}) is outside the screen",
                hint=f"points are from (0, 0) to ({width - last}, {height - last})",
            )
        half = 0.5 if self.unit == "pixel" else 0.0
        return (
            min(self.screen.width - 1, int((x + half) * self.screen.width / width)),
            min(self.screen.height - 1, int((y + half) * self.screen.height / height)),
        )

    def from_screen(self, x: int, y: int) -> tuple[float, float]:
        """The numbers of a pixel's centre: whole ones, except that fractions have five digits."""
        width, height = self.extent
        across = (x + 0.5) * width / self.screen.width
        down = (y + 0.5) * height / self.screen.height
        if self.unit == "fraction":
            return round(across, 5), round(down, 5)
        if self.unit == "thousandth":
            return round(across), round(down)
        return int(across), int(down)

    def distance_to_screen(self, dx: float, dy: float) -> Point:
        """A distance in px of the screen; one that is not nothing does not become nothing."""
        width, height = self.extent
        return _scaled(dx, self.screen.width / width), _scaled(dy, self.screen.height / height)

    def distance_from_screen(self, dx: int, dy: int) -> Point:
        """The same back, in whole numbers. For spaces whose numbers are large enough for that."""
        width, height = self.extent
        return _scaled(dx, width / self.screen.width), _scaled(dy, height / self.screen.height)

    def _holds(self, value: float, extent: int) -> bool:
        # written so that NaN is outside
        return 0 <= value < extent if self.unit == "pixel" else 0 <= value <= extent


def fractions(screen: Size) -> CoordinateSpace:
    """0 to 1 over the screen."""
    return CoordinateSpace(unit="fraction", screen=screen)


def thousandths(screen: Size) -> CoordinateSpace:
    """0 to 1000 over the screen."""
    return CoordinateSpace(unit="thousandth", screen=screen)


def pixels(image: Size, screen: Size) -> CoordinateSpace:
    """Pixels of a picture that shows the screen, resized or not."""
    return CoordinateSpace(unit="pixel", image=image, screen=screen)


def css_pixels(space: ScreenSpace) -> CoordinateSpace:
    """CSS px of a session, over its model px."""
    return pixels(space.css, space.model)


def _scaled(distance: float, ratio: float) -> int:
    scaled = distance * ratio
    if not math.isfinite(scaled):
        raise BadAction(f"{distance:g} is no distance", hint="give a number of pixels")
    return round(scaled) or (distance > 0) - (distance < 0)
