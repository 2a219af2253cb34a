"""The element that an action was aimed at, so that it is found again on a page that has moved it.

Nothing here is of one tool: what browsers, recorders and importers know of an element fits in, and
each reads of it what it understands.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, StringConstraints

from agentserve.core.model import Wire

Words = Annotated[str, StringConstraints(max_length=2000)]


class PageBox(Wire):
    """A rectangle in the viewport, in CSS px; it may begin or end outside of it."""

    x: Annotated[float, Field(allow_inf_nan=False)]
    y: Annotated[float, Field(allow_inf_nan=False)]
    width: Annotated[float, Field(ge=0, allow_inf_nan=False)]
    height: Annotated[float, Field(ge=0, allow_inf_nan=False)]

    def holds(self, x: float, y: float) -> bool:
        return self.x <= x < self.x + self.width and self.y <= y < self.y + self.height


class Selector(Wire):
    """One way to find an element below another, or in the document."""

    engine: Literal["css", "xpath", "text", "aria", "test_id"]
    value: Annotated[str, StringConstraints(min_length=1, max_length=2000)]
    """For ``aria`` the accessible name, for ``test_id`` that of the attribute data-testid."""
    role: Words | None = None
    """Of ``aria``: the element's role."""


Chain = Annotated[tuple[Selector, ...], Field(min_length=1, max_length=16)]
"""The outermost first: each is looked for in the frame or shadow root that the one before is."""


class ElementTarget(Wire):
    """What is known of the element."""

    selectors: Annotated[tuple[Chain, ...], Field(max_length=32)] = ()
    """Each finds it by itself; the surest first."""
    box: PageBox | None = None
    """Where it was."""
    offset: tuple[float, float] | None = None
    """Of the action's point from the box's left upper corner, in CSS px; None: its middle."""
    tag: Words = ""
    text: Words = ""
    """What it shows, for people."""
