"""What all dialects check alike in what a model, or a recording, has said."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, TypeVar

from pydantic import ValidationError
from pydantic_core import from_json

from agentserve.core.actions.dialects.spaces import CoordinateSpace, Point
from agentserve.core.actions.recorded import RecordedAction, Unsupported
from agentserve.core.actions.union import Click, DoubleClick, Drag, Hover, Scroll, Type, Wait
from agentserve.core.errors import BadAction
from agentserve.core.screens import MAX_SIDE

Said = str | Mapping[str, Any]
Part = TypeVar("Part")
MAX_SAID = 32_768
"""Characters of one answer, and of a text that it types."""
MAX_ACTIONS = 100
"""Of one answer."""
NOTCH_PX = 100
"""What one notch of the wheel scrolls, where a dialect counts notches."""
MAX_NOTCHES = MAX_SIDE // NOTCH_PX
_MAX_TYPED = 2000
_MAX_WAIT = 30
_SEEN = 80
_MOVING = (Click, DoubleClick, Drag, Scroll)
_ENDS = ("<|im_end|>", "<|endoftext|>")


def checked_text(text: str) -> str:
    """The text itself. Raises BadAction for one longer than ``MAX_SAID``, or that is no Unicode."""
    if len(text) > MAX_SAID:
        raise BadAction(f"an answer of {len(text)} characters; {MAX_SAID} is most")
    if not text.isascii() and any("\ud800" <= char <= "\udfff" for char in text):
        raise BadAction("the answer has half a character in it (a lone surrogate)")
    return text


def without_end(text: str) -> str:
    """The text without the tokens that end a model's answer, where they were left in it, and
    without white space around it."""
    text = text.strip()
    while text.endswith(_ENDS):
        text = text.removesuffix(_ENDS[0]).removesuffix(_ENDS[1]).rstrip()
    return text


def object_of(said: Said, what: str) -> Mapping[str, Any]:
    """A JSON object, parsed where it is a text. Raises BadAction."""
    value: Any = said
    if isinstance(said, str):
        try:
            value = from_json(checked_text(said), allow_inf_nan=False)
        except ValueError as error:
            raise BadAction(f"{what} is not JSON: {str(error)[:_SEEN]}") from error
    if not isinstance(value, Mapping):
        raise BadAction(f"{what} must be a JSON object, got {shown(value)}")
    return value


def number(value: Any, what: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not _finite(value):
        raise BadAction(f"{what} must be a number, got {shown(value)}")
    return value


def _finite(value: float) -> bool:
    try:
        return math.isfinite(value)
    except OverflowError:  # a whole number larger than any float
        return False


def text_of(value: Any, what: str) -> str:
    if not isinstance(value, str):
        raise BadAction(f"{what} must be a text, got {shown(value)}")
    return checked_text(value)


def texts_of(value: Any, what: str) -> list[str]:
    if not isinstance(value, list | tuple) or len(value) > MAX_ACTIONS:
        raise BadAction(f"{what} must be a list of texts, got {shown(value)}")
    return [text_of(one, what) for one in value]


def point_of(value: Any, space: CoordinateSpace, what: str) -> Point:
    """``[x, y]`` as a pixel of the screen."""
    if not isinstance(value, list | tuple) or len(value) != 2:
        raise BadAction(f"{what} must be [x, y], got {shown(value)}")
    return space.to_screen(number(value[0], f"{what} x"), number(value[1], f"{what} y"))


def at_pointer(pointer: Point | None, what: str) -> Point:
    """Where the mouse is. Raises BadAction when nobody knows."""
    if pointer is None:
        raise BadAction(f"{what} needs a point", hint="say where, or move the mouse there first")
    return pointer


def wait(seconds: float) -> tuple[RecordedAction, ...]:
    """A pause, rounded up to whole seconds; a long one in parts."""
    if not 0 <= seconds <= _MAX_WAIT * 10:
        raise BadAction(f"cannot wait {seconds:g} s", hint=f"wait 1 to {_MAX_WAIT} seconds")
    left = max(1, math.ceil(seconds))
    parts = [_MAX_WAIT] * (left // _MAX_WAIT) + ([left % _MAX_WAIT] if left % _MAX_WAIT else [])
    return tuple(Wait(seconds=part) for part in parts)


def typed(text: str) -> tuple[RecordedAction, ...]:
    """Text to type, in parts where it is long."""
    checked_text(text)
    starts = range(0, len(text) or 1, _MAX_TYPED)
    return tuple(Type(text=text[start : start + _MAX_TYPED]) for start in starts)


def scroll(at: Point, dx: float, dy: float) -> tuple[RecordedAction, ...]:
    """The wheel at a point; distances in px of the screen, to the right and down."""
    if not (_finite(dx) and _finite(dy)):
        raise BadAction("cannot scroll without end", hint="scroll less")
    try:
        return (Scroll(x=at[0], y=at[1], dx=round(dx), dy=round(dy)),)
    except ValidationError as error:
        raise BadAction(f"cannot scroll by ({dx:g}, {dy:g}) px", hint="scroll less") from error


def notches(value: float) -> float:
    """A number of notches of the wheel as px."""
    if not -MAX_NOTCHES <= value <= MAX_NOTCHES:
        raise BadAction(f"cannot scroll {value:g} notches", hint=f"{MAX_NOTCHES} is most")
    return value * NOTCH_PX


def notches_of(px: int) -> int:
    """Whole notches nearest to a distance, of those that are read again; a distance never becomes
    nothing."""
    whole = round(px / NOTCH_PX) or (px > 0) - (px < 0)
    return min(max(whole, -MAX_NOTCHES), MAX_NOTCHES)


def middle(space: CoordinateSpace) -> Point:
    """Of the screen: where a wheel turns when neither the text nor the pointer says."""
    return space.screen.width // 2, space.screen.height // 2


def unsupported(name: str, arguments: Any = None) -> tuple[RecordedAction, ...]:
    """What the dialect can say and we cannot do, in its own numbers."""
    words = name if not arguments else f"{name} {json.dumps(arguments, default=str)}"
    return (Unsupported(what=words[:2000]),)


def joined(actions: Iterable[RecordedAction]) -> tuple[RecordedAction, ...]:
    """All of one answer. A move of the mouse to where the next action goes by itself is part of
    it. Raises BadAction for none and for too many."""
    whole: list[Any] = []
    for action in actions:
        if whole and isinstance(whole[-1], Hover) and isinstance(action, _MOVING):
            if (whole[-1].x, whole[-1].y) == (action.x, action.y):
                whole.pop()
        whole.append(action)
        if len(whole) > MAX_ACTIONS:
            raise BadAction(f"over {MAX_ACTIONS} actions in one answer", hint="do fewer at a time")
    if not whole:
        raise BadAction("there is no action in the answer", hint="write one action")
    return tuple(whole)


def in_turn(
    parts: Iterable[Part],
    read: Callable[[Part, Point | None], Iterable[RecordedAction]],
    pointer: Point | None,
) -> tuple[RecordedAction, ...]:
    """The actions of all parts, ``joined``; each part is told where the one before left the
    mouse."""

    def actions() -> Iterator[RecordedAction]:
        at = pointer
        for part in parts:
            for action in read(part, at):
                at = pointer_after(action, at)
                yield action

    return joined(actions())


def pointer_after(action: Any, pointer: Point | None) -> Point | None:
    """Where the mouse is once an action was done."""
    if isinstance(action, Drag):
        return action.to_x, action.to_y
    return (action.x, action.y) if hasattr(action, "x") else pointer


def shown(value: Any) -> str:
    """A wrong value, short enough to be read."""
    if isinstance(value, str | int | float | bool | None):
        # of a huge number or text, never the whole is made
        return repr(value[:_SEEN]) if isinstance(value, str) else _number(value)
    return f"a {type(value).__name__}"


def _number(value: Any) -> str:
    if isinstance(value, int) and value.bit_length() > 64:
        return "a huge number"
    return repr(value)


def no_word(dialect: str, action: Any) -> BadAction:
    """Of an action that a dialect cannot say."""
    return BadAction(f"{dialect} has no word for {action.kind}")
