"""OpenAI's ``computer_call``: an object with one ``action``, or with ``actions``; pixels of the
display that the tool was created with.

As published in the API reference of Responses, for ``computer-use-preview`` and for the generally
available ``computer`` tool, whose mouse actions may also name ``keys`` that are held. ``wait`` says
no time: it is read as one second (``ms`` is read where an old sample gives it), and written once
whatever the time. A ``drag`` is a path: a straight one is read as Drag, another is Unsupported. A
model ends by a message, not by an action: Done has no word. Keys are named in capitals: ``A`` is
the key a, without Shift.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

from agentserve.core.actions.dialects import checks
from agentserve.core.actions.dialects.checks import Said
from agentserve.core.actions.dialects.keys import chord_of, hold, names_of, press
from agentserve.core.actions.dialects.spaces import CoordinateSpace, Point
from agentserve.core.actions.recorded import Forward, RecordedAction
from agentserve.core.actions.union import Back, Click, DoubleClick, Drag, Hover
from agentserve.core.errors import BadAction

Actions = tuple[RecordedAction, ...]
Values = Mapping[str, Any]

_BUTTONS = {"left": "left", "right": "right", "wheel": "middle", "middle": "middle"}
_HISTORY = {"back": Back, "forward": Forward}
_MAX_PATH = 1000
_STRAIGHT_PX = 3
"""So far may a point of a path lie off the line from its first to its last."""


def read(said: Said, space: CoordinateSpace, pointer: Point | None = None) -> Actions:
    """The actions of a ``computer_call``, or of one action of it; points in px of
    ``space.screen``. Raises BadAction."""
    value = checks.object_of(said, "the computer_call")
    several = value.get("actions", value.get("action"))
    if several is None:
        several = value
    if isinstance(several, Mapping):
        several = [several]
    if not isinstance(several, list) or len(several) > checks.MAX_ACTIONS:
        raise BadAction("actions must be a list of actions", hint=f"{checks.MAX_ACTIONS} is most")
    objects = (checks.object_of(one, "an action") for one in several)
    return checks.in_turn(objects, lambda one, _: _of_action(one, space), pointer)


def _of_action(values: Values, space: CoordinateSpace) -> Actions:
    name = checks.text_of(values.get("type"), "type")
    if name not in _READERS:
        raise BadAction(
            f"unknown action {name[:40]!r}", hint=f"known: {', '.join(sorted(_READERS))}"
        )
    actions = _READERS[name](values, space)
    held = values.get("keys") if name != "keypress" else None
    if not held:
        return actions
    return hold(chord_of(checks.texts_of(held, "keys"), shifts=False), actions)


def _at(values: Values, space: CoordinateSpace) -> Point:
    return checks.point_of(
        [values.get("x"), values.get("y")], space, f"{values['type']}: the point"
    )


def _click(values: Values, space: CoordinateSpace) -> Actions:
    button = checks.text_of(values.get("button", "left"), "button")
    if button in _HISTORY:
        return (_HISTORY[button](),)
    if button not in _BUTTONS:
        raise BadAction(f"no button {button[:40]!r}", hint=f"known: {', '.join(_BUTTONS)}")
    x, y = _at(values, space)
    return (Click(x=x, y=y, button=_BUTTONS[button]),)


def _double_click(values: Values, space: CoordinateSpace) -> Actions:
    x, y = _at(values, space)
    return (DoubleClick(x=x, y=y),)


def _move(values: Values, space: CoordinateSpace) -> Actions:
    x, y = _at(values, space)
    return (Hover(x=x, y=y),)


def _drag(values: Values, space: CoordinateSpace) -> Actions:
    path = values.get("path")
    if not isinstance(path, list) or not 2 <= len(path) <= _MAX_PATH:
        raise BadAction("drag: path must be a list of points", hint=f"2 to {_MAX_PATH} of them")
    points = []
    for one in path:
        pair = one if isinstance(one, list) else [one.get("x"), one.get("y")] if _is(one) else one
        points.append(checks.point_of(pair, space, "a point of path"))
    (x, y), (to_x, to_y) = points[0], points[-1]
    if any(_off(point, points[0], points[-1]) > _STRAIGHT_PX for point in points[1:-1]):
        return checks.unsupported("drag along a bent path", {"path": path})
    return (Drag(x=x, y=y, to_x=to_x, to_y=to_y),)


def _is(value: Any) -> bool:
    return isinstance(value, Mapping)


def _off(point: Point, start: Point, end: Point) -> float:
    """How far a point lies off a line, in px."""
    (x, y), (ax, ay), (bx, by) = point, start, end
    length = math.dist(start, end)
    along = ((x - ax) * (bx - ax) + (y - ay) * (by - ay)) / length**2 if length else 0.0
    along = min(1.0, max(0.0, along))
    return math.dist(point, (ax + along * (bx - ax), ay + along * (by - ay)))


def _scroll(values: Values, space: CoordinateSpace) -> Actions:
    given = [checks.number(values.get(name, 0), name) for name in ("scroll_x", "scroll_y")]
    return checks.scroll(_at(values, space), *space.distance_to_screen(*given))


def _keypress(values: Values, space: CoordinateSpace) -> Actions:
    return press(checks.texts_of(values.get("keys"), "keys"), shifts=False)


def _type(values: Values, space: CoordinateSpace) -> Actions:
    return checks.typed(checks.text_of(values.get("text"), "text"))


def _wait(values: Values, space: CoordinateSpace) -> Actions:
    return checks.wait(checks.number(values.get("ms", 1000), "ms") / 1000)


def _screenshot(values: Values, space: CoordinateSpace) -> Actions:
    return checks.unsupported("screenshot")


_READERS: dict[str, Callable[[Values, CoordinateSpace], Actions]] = {
    "click": _click,
    "double_click": _double_click,
    "drag": _drag,
    "keypress": _keypress,
    "move": _move,
    "screenshot": _screenshot,
    "scroll": _scroll,
    "type": _type,
    "wait": _wait,
}


def write(action: RecordedAction, space: CoordinateSpace) -> dict[str, Any]:
    """The ``action`` of a ``computer_call``. Raises BadAction for what it cannot say."""

    def at(x: int, y: int) -> dict[str, float]:
        across, down = space.from_screen(x, y)
        return {"x": across, "y": down}

    a: Any = action
    match a.kind:
        case "click":
            button = "wheel" if a.button == "middle" else a.button
            return {"type": "click", "button": button, **at(a.x, a.y)}
        case "double_click":
            return {"type": "double_click", **at(a.x, a.y)}
        case "hover":
            return {"type": "move", **at(a.x, a.y)}
        case "drag":
            return {"type": "drag", "path": [at(a.x, a.y), at(a.to_x, a.to_y)]}
        case "scroll":
            dx, dy = space.distance_from_screen(a.dx, a.dy)
            return {"type": "scroll", **at(a.x, a.y), "scroll_x": dx, "scroll_y": dy}
        case "key":
            return {"type": "keypress", "keys": names_of(a.keys, "openai")}
        case "type":
            return {"type": "type", "text": a.text}
        case "wait":
            return {"type": "wait"}
        case "back" | "forward":
            middle = at(*checks.middle(space))
            return {"type": "click", "button": a.kind, **middle}
    raise checks.no_word("computer_call", action)
