"""One thing that differs."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

from pydantic import Field, JsonValue

from agentserve.core.model import Wire

Comparer = Literal["action", "screen", "aria", "usage", "prefix", "outcome", "network", "tokens"]


class Difference(Wire):
    """One field that differs; points are ``[x, y]`` in CSS px."""

    comparer: Comparer
    field: str
    """Of the compared thing, as ``action.point``."""
    recorded: JsonValue = None
    replayed: JsonValue = None
    message: str = ""
    """What the two values do not tell by themselves, in a sentence."""
    parts: list[Difference] = Field(default_factory=list)
    """What it consists of, such as the regions of a screen."""


def against_accepted(differences: Iterable[Difference]) -> list[Difference]:
    """The same, told as differences from what was accepted in the recorded thing's place. Pure."""
    told = "compared with what was accepted, not with what was recorded"
    return [
        one.model_copy(update={"message": f"{one.message}; {told}" if one.message else told})
        for one in differences
    ]
