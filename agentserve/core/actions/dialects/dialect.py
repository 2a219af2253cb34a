"""What a dialect is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

from agentserve.core.actions.dialects.checks import Said
from agentserve.core.actions.dialects.spaces import CoordinateSpace, Point
from agentserve.core.actions.recorded import RecordedAction
from agentserve.core.screens import Size


class Reads(Protocol):
    def __call__(
        self, said: Said, space: CoordinateSpace, pointer: Point | None = None
    ) -> tuple[RecordedAction, ...]: ...


class Writes(Protocol):
    def __call__(self, action: RecordedAction, space: CoordinateSpace) -> str | dict[str, Any]: ...


class Spaces(Protocol):
    def __call__(self, screen: Size) -> CoordinateSpace: ...


@dataclass(frozen=True)
class Dialect:
    """A way in which models write actions."""

    name: str
    space: Spaces
    """What its numbers mean when the model is shown the screen, of that many px, as it is. A
    picture that was resized before has another space: ``spaces.pixels``."""
    read: Reads
    """The actions of one answer, in the order in which they are to be done, at least one; points
    and distances in px of ``space.screen``. ``pointer`` is where the mouse is, where known. What
    our actions cannot hold comes as an act of core.actions.recorded, at last as Unsupported:
    nothing said is left out. Raises BadAction, in words that a model can be shown."""
    write: Writes
    """One action as a model would write it. Raises BadAction where the dialect has no word."""
