"""How a JSON body gives a screenshot."""

from __future__ import annotations

from typing import Annotated, Self

from pydantic import Field, model_validator

from agentserve.core.model import Wire
from agentserve.core.plans import Box, Sha256

MAX_REGIONS = 256
"""Of one screenshot that is sent as what has changed."""


class ScreenRegion(Wire):
    """A part of a screenshot that has changed, as PNG."""

    box: Box
    """In px of the screenshot."""
    base64: str | None = None
    blob: Sha256 | None = None

    @model_validator(mode="after")
    def _one(self) -> Self:
        if (self.base64 is None) == (self.blob is None):
            raise ValueError("give exactly one of base64 and blob")
        return self


class ScreenshotRef(Wire):
    """A screenshot in a JSON body: its bytes in base64, or the hash of a blob sent before, or an
    earlier screenshot with what has changed since."""

    base64: str | None = None
    blob: Sha256 | None = None
    base: Sha256 | None = None
    """The blob of the earlier screenshot: what its turn answered as ``screenshot``."""
    regions: Annotated[list[ScreenRegion], Field(max_length=MAX_REGIONS)] = Field(
        default_factory=list
    )
    """Put over the base in this order; together they have at most as many pixels. None: nothing has
    changed."""
    sha256: Sha256 | None = None
    """What must come out: of the text ``WIDTHxHEIGHT:`` and the new screenshot's RGB bytes, row by
    row."""

    @model_validator(mode="after")
    def _one(self) -> Self:
        if [self.base64, self.blob, self.base].count(None) != 2:
            raise ValueError("give exactly one of base64, blob and base")
        if (self.base is None) != (self.sha256 is None) or (self.regions and not self.base):
            raise ValueError("base, regions and sha256 go together")
        return self
