"""What the script beside a page tells of a person (scripts/person.js)."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, StringConstraints, TypeAdapter

from agentserve.core.actions.union import Coordinate
from agentserve.core.elements import ElementTarget
from agentserve.core.model import Wire
from agentserve.core.runs import Pointer

MAX_BYTES = 256 * 1024
"""Of a message: a text of 100,000 characters has room."""
Value = Annotated[str, StringConstraints(max_length=100_000)]

Passing = Annotated[list[Annotated[str, StringConstraints(max_length=64)]], Field(max_length=100)]


class Begin(Wire):
    kind: Literal["begin"]


class Pointed(Wire):
    """The pointer has moved: no act."""

    kind: Literal["pointer"]
    at: Pointer | None
    """None: in a frame of another origin, who knows where."""


class Clicked(Wire):
    kind: Literal["click"]
    x: Coordinate
    y: Coordinate
    button: Literal["left", "middle", "right"]
    count: Annotated[int, Field(ge=1, le=3)]
    """Which of several clicks in a row."""
    target: ElementTarget | None


class Dragged(Wire):
    kind: Literal["drag"]
    x: Coordinate
    y: Coordinate
    to_x: Coordinate
    to_y: Coordinate
    target: ElementTarget | None
    to_target: ElementTarget | None


class Scrolled(Wire):
    kind: Literal["scroll"]
    x: Coordinate
    y: Coordinate
    dx: Annotated[int, Field(ge=-1_000_000, le=1_000_000)]
    dy: Annotated[int, Field(ge=-1_000_000, le=1_000_000)]


class Typed(Wire):
    kind: Literal["typed"]
    text: Value | None
    """What was put behind that which was there; None: the field was edited otherwise."""
    value: Value
    """What is in the field now."""
    secret: bool
    passing: Passing = Field(default_factory=list)
    """What stood in it meanwhile, of a password field."""
    target: ElementTarget | None


class Held(Wire):
    """Of a password field that nobody has typed into, or that is as it was: no act."""

    kind: Literal["held"]
    value: Value | None
    """What is in it; None: that was told before."""
    passing: Passing
    target: ElementTarget | None


class Set(Wire):
    """Of a select, or another field that has no text."""

    kind: Literal["set"]
    value: Value
    target: ElementTarget | None


class Pressed(Wire):
    kind: Literal["key"]
    keys: Annotated[str, StringConstraints(max_length=60)]


class Unknown(Wire):
    kind: Literal["unsupported"]
    what: Annotated[str, StringConstraints(max_length=200)]


Message = Begin | Pointed | Clicked | Dragged | Scrolled | Typed | Held | Set | Pressed | Unknown
MESSAGE: TypeAdapter[Message] = TypeAdapter(Annotated[Message, Field(discriminator="kind")])
