"""The input of Anthropic's ``computer`` tool: pixels of the display that the tool was declared
with.

As published in the tool's documentation for computer_20241022, computer_20250124 and the later
ones, with xdotool's names of keys. What has no coordinate acts where the mouse is. ``scroll``
counts notches, read as NOTCH_PX each. ``text`` of a click or scroll names keys that are held. A
model ends by a message, not by an action: Done has no word.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from agentserve.core.actions.dialects import checks
from agentserve.core.actions.dialects.checks import Said
from agentserve.core.actions.dialects.keys import chord_of, hold, names_of, press, split_chord
from agentserve.core.actions.dialects.spaces import CoordinateSpace, Point
from agentserve.core.actions.recorded import RecordedAction
from agentserve.core.actions.union import Click, DoubleClick, Drag, Hover
from agentserve.core.errors import BadAction

Actions = tuple[RecordedAction, ...]
Values = Mapping[str, Any]

_DIRECTIONS = {"up": (0, -1), "down": (0, 1), "left": (-1, 0), "right": (1, 0)}
_HOLDING = {"left_click", "right_click", "middle_click", "double_click", "scroll"}
"""Where ``text`` is keys that are held."""
_MAX_PRESSES = 50


def read(said: Said, space: CoordinateSpace, pointer: Point | None = None) -> Actions:
    """The actions of a ``tool_use`` block, or of its input; points in px of ``space.screen``.
    Raises BadAction."""
    values = checks.object_of(said, "the tool's input")
    if "input" in values:
        if values.get("name", "computer") != "computer":
            raise BadAction(f"no tool {checks.shown(values['name'])}", hint="use computer")
        values = checks.object_of(values["input"], "input")
    name = checks.text_of(values.get("action"), "action")
    if name not in _READERS:
        raise BadAction(
            f"unknown action {name[:40]!r}", hint=f"known: {', '.join(sorted(_READERS))}"
        )
    actions = _READERS[name](values, space, pointer)
    if name in _HOLDING and values.get("text"):
        actions = hold(_chord(checks.text_of(values["text"], "text")), actions)
    return checks.joined(actions)


def _chord(text: str) -> list[str]:
    return chord_of(split_chord(text))


def _at(
    values: Values, space: CoordinateSpace, pointer: Point | None, name: str = "coordinate"
) -> Point:
    if values.get(name) is None:
        return checks.at_pointer(pointer, values["action"])
    return checks.point_of(values[name], space, name)


def _pointing(make: Callable[[Point], RecordedAction]) -> Callable[..., Actions]:
    def pointing(values: Values, space: CoordinateSpace, pointer: Point | None) -> Actions:
        return (make(_at(values, space, pointer)),)

    return pointing


def _drag(values: Values, space: CoordinateSpace, pointer: Point | None) -> Actions:
    x, y = _at(values, space, pointer, "start_coordinate")
    to_x, to_y = _at(values, space, None)
    return (Drag(x=x, y=y, to_x=to_x, to_y=to_y),)


def _scroll(values: Values, space: CoordinateSpace, pointer: Point | None) -> Actions:
    at = _at(values, space, pointer or checks.middle(space))
    direction = checks.text_of(values.get("scroll_direction"), "scroll_direction")
    if direction not in _DIRECTIONS:
        raise BadAction(f"no direction {direction[:40]!r}", hint=f"known: {', '.join(_DIRECTIONS)}")
    px = checks.notches(checks.number(values.get("scroll_amount"), "scroll_amount"))
    dx, dy = _DIRECTIONS[direction]
    return checks.scroll(at, dx * px, dy * px)


def _key(values: Values, space: CoordinateSpace, pointer: Point | None) -> Actions:
    """One chord, or several with spaces between them, as xdotool presses one after the other."""
    chords = checks.text_of(values.get("text"), "text").split()
    repeat = checks.number(values.get("repeat", 1), "repeat")
    if not chords or not 1 <= repeat * len(chords) <= _MAX_PRESSES:
        raise BadAction("key: text must name keys", hint=f"1 to {_MAX_PRESSES}, as ctrl+a")
    return tuple(one for chord in chords for one in press(split_chord(chord))) * int(repeat)


def _hold_key(values: Values, space: CoordinateSpace, pointer: Point | None) -> Actions:
    keys = _chord(checks.text_of(values.get("text"), "text"))
    return hold(keys, checks.wait(checks.number(values.get("duration"), "duration")))


def _type(values: Values, space: CoordinateSpace, pointer: Point | None) -> Actions:
    return checks.typed(checks.text_of(values.get("text"), "text"))


def _wait(values: Values, space: CoordinateSpace, pointer: Point | None) -> Actions:
    return checks.wait(checks.number(values.get("duration", 1), "duration"))


def _other(values: Values, space: CoordinateSpace, pointer: Point | None) -> Actions:
    others = {name: value for name, value in values.items() if name != "action"}
    return checks.unsupported(values["action"], others)


_READERS: dict[str, Callable[[Values, CoordinateSpace, Point | None], Actions]] = {
    "key": _key,
    "type": _type,
    "mouse_move": _pointing(lambda at: Hover(x=at[0], y=at[1])),
    "left_click": _pointing(lambda at: Click(x=at[0], y=at[1])),
    "right_click": _pointing(lambda at: Click(x=at[0], y=at[1], button="right")),
    "middle_click": _pointing(lambda at: Click(x=at[0], y=at[1], button="middle")),
    "double_click": _pointing(lambda at: DoubleClick(x=at[0], y=at[1])),
    "left_click_drag": _drag,
    "scroll": _scroll,
    "wait": _wait,
    "hold_key": _hold_key,
    "triple_click": _other,
    "left_mouse_down": _other,
    "left_mouse_up": _other,
    "screenshot": _other,
    "cursor_position": _other,
    "zoom": _other,
}


def write(action: RecordedAction, space: CoordinateSpace) -> dict[str, Any]:
    """The tool's input. Raises BadAction for what it cannot say, a wheel turned both ways among
    it."""

    def at(name: str, x: int, y: int) -> dict[str, Any]:
        return {"action": name, "coordinate": list(space.from_screen(x, y))}

    a: Any = action
    match a.kind:
        case "click":
            return at(f"{a.button}_click", a.x, a.y)
        case "double_click":
            return at("double_click", a.x, a.y)
        case "hover":
            return at("mouse_move", a.x, a.y)
        case "drag":
            start = list(space.from_screen(a.x, a.y))
            return {**at("left_click_drag", a.to_x, a.to_y), "start_coordinate": start}
        case "scroll" if not (a.dx and a.dy):
            amount = checks.notches_of(a.dx or a.dy)
            ways = ("right", "left") if a.dx else ("down", "up")
            way = ways[amount < 0]
            turned = {"scroll_direction": way, "scroll_amount": abs(amount)}
            return {**at("scroll", a.x, a.y), **turned}
        case "key":
            return {"action": "key", "text": "+".join(names_of(a.keys, "xdotool"))}
        case "type":
            return {"action": "type", "text": a.text}
        case "wait":
            return {"action": "wait", "duration": a.seconds}
    raise checks.no_word("the computer tool", action)
