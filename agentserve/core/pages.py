"""How pages are made to show the same each time: the browser does it, recordings tell of it."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AwareDatetime, Field

from agentserve.core.model import Wire


class PageSettings(Wire):
    """What was done to make the pages show the same each time. A replay does the same."""

    fixed_time: AwareDatetime | None = None
    """The pages' clock stood still at it."""
    random_seed: Annotated[int, Field(ge=0, lt=2**32)] | None = None
    """Math.random, crypto.getRandomValues and randomUUID began with it."""
    animations: bool = True
    """False: animations and transitions were at their end at once."""
    fonts_awaited: bool = False
    network: Literal["live", "recorded"] = "live"
    """``recorded``: network.har holds what the pages fetched."""
