"""The element that an action was aimed at, so that it is found again on a page that has moved it.

Nothing here is of one tool: what browsers, recorders and importers know of an element fits in, and
each reads of it what it understands.
"""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, StringConstraints, model_validator

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
    value: Words
    """For ``aria`` the accessible name, for ``test_id`` that of the attribute data-testid. Empty
    only where a role says enough."""
    role: Words | None = None
    """Of ``aria``: the element's role."""
    exact: bool = True
    """Of ``aria`` and ``text``: the whole of it, in its case; False: a part of it, in any case."""
    nth: Annotated[int, Field(ge=-1, le=100_000)] | None = None
    """Which of several that fit, from 0; -1: the last. None: there is one only."""

    @model_validator(mode="after")
    def _says_something(self) -> Self:
        if not self.value and not (self.engine == "aria" and self.role):
            raise ValueError("a selector needs a value, or a role")
        return self


Chain = Annotated[tuple[Selector, ...], Field(min_length=1, max_length=16)]
"""The outermost first: each is looked for below the one before, and where that is a frame or the
host of a shadow root, in it."""


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
