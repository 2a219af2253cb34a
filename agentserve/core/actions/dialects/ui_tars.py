"""The text of UI-TARS: ``Thought: …`` and ``Action: click(start_box='(197,525)')``.

As published in bytedance/UI-TARS (codes/ui_tars/prompt.py, action_parser.py). Version 1 gives
points in thousandths and writes ``start_box='<|box_start|>(x,y)<|box_end|>'``; version 1.5 gives
pixels of the picture as ``smart_resize`` leaves it and writes ``point='<point>x y</point>'``. Both
are read in all these forms, also as a box, whose middle is meant. ``scroll`` names a direction
only: it is read as SCROLL_PX. ``wait()`` is 5 s, and is written whatever the time; only a success
can be said to be finished.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

from agentserve.core.actions.dialects import checks
from agentserve.core.actions.dialects.calls import Call, read_calls
from agentserve.core.actions.dialects.checks import Said
from agentserve.core.actions.dialects.keys import names_of, press, split_words
from agentserve.core.actions.dialects.spaces import CoordinateSpace, Point
from agentserve.core.actions.recorded import RecordedAction
from agentserve.core.actions.union import CallUser, Click, Done, DoubleClick, Drag, Hover
from agentserve.core.errors import BadAction

Actions = tuple[RecordedAction, ...]

SCROLL_PX = 500
"""The published code turns the wheel by five notches."""
_WAIT_S = 5
_MARKS = re.compile(r"<\|box_start\|>|<\|box_end\|>|</?(?:point|bbox)>|[()\[\],]")
_MAX_POINT = 200
_ACTION = re.compile(r"^[ \t]*Action:", re.MULTILINE)
_TEXTS = {"type": "content", "finished": "content", "call_user": "content"}
_TEXT_CALL = re.compile(r"(type|finished|call_user)\(\s*content\s*=\s*(['\"])")
_ESCAPES = re.compile(r"\\(.)", re.DOTALL)
_DIRECTIONS = {"down": (0, 1), "up": (0, -1), "right": (1, 0), "left": (-1, 0)}


def read(said: Said, space: CoordinateSpace, pointer: Point | None = None) -> Actions:
    """The actions behind the last ``Action:``, several with an empty line between them; points in
    px of ``space.screen``. Raises BadAction."""
    text = checks.checked_text(checks.text_of(said, "the answer"))
    *_, begin = (0, *(found.end() for found in _ACTION.finditer(text)))
    calls = (call for part in _parts(checks.without_end(text[begin:])) for call in _calls(part))
    return checks.in_turn(calls, lambda call, at: _of_call(call, space, at), pointer)


def _parts(text: str) -> Iterator[str]:
    """What stands between empty lines; those within a quoted text are its own."""
    begun = ""
    for part in text.split("\n\n"):
        whole = f"{begun}\n\n{part}" if begun else part.lstrip()
        opening = _TEXT_CALL.match(whole)
        begun = whole if opening and not whole.rstrip().endswith(f"{opening[2]})") else ""
        if whole and not begun:
            yield whole.rstrip()
    if begun:
        yield begun


def _calls(text: str) -> list[Call]:
    """Of calls with a text that people or models quote as they like, the outer quotes count."""
    opening = _TEXT_CALL.match(text)
    if opening and text.endswith(f"{opening[2]})"):
        inner = text[opening.end() : -2]
        content = _ESCAPES.sub(lambda m: {"n": "\n", "t": "\t"}.get(m[1], m[1]), inner)
        return [Call(opening[1], (), {"content": content})]
    return read_calls(text)


def _of_call(call: Call, space: CoordinateSpace, pointer: Point | None) -> Actions:
    if call.name not in _READERS:
        raise BadAction(
            f"unknown action {call.name[:40]!r}", hint=f"known: {', '.join(sorted(_READERS))}"
        )
    return _READERS[call.name](call, space, pointer)


def _point(value: Any, space: CoordinateSpace, what: str) -> Point:
    """A point, or the middle of a box, in any of the ways in which the models write them."""
    text = checks.text_of(value, what)
    words = _MARKS.sub(" ", text[:_MAX_POINT]).split()
    try:
        numbers = [float(word) for word in words]
    except ValueError:
        numbers = []
    if len(text) > _MAX_POINT or len(numbers) not in {2, 4}:
        raise BadAction(f"{what} must be '(x,y)', got {checks.shown(text)}")
    x, y = (numbers[0] + numbers[-2]) / 2, (numbers[1] + numbers[-1]) / 2
    return checks.point_of([x, y], space, what)


def _at(call: Call, space: CoordinateSpace, *others: str) -> tuple[Point | None, dict[str, Any]]:
    values = call.bind("start_box", *others, ignored=("point", "start_point"))
    for name in ("start_box", "point", "start_point"):
        if name in values:
            return _point(values[name], space, name), values
    return None, values


def _pointing(make: Callable[[Point], RecordedAction]) -> Callable[..., Actions]:
    def pointing(call: Call, space: CoordinateSpace, pointer: Point | None) -> Actions:
        at, _ = _at(call, space)
        return (make(checks.at_pointer(at, call.name)),)

    return pointing


def _drag(call: Call, space: CoordinateSpace, pointer: Point | None) -> Actions:
    start, values = _at(call, space, "end_box", "end_point")
    x, y = checks.at_pointer(start, call.name)
    end = values.get("end_box", values.get("end_point"))
    to_x, to_y = _point(end, space, "end_box")
    return (Drag(x=x, y=y, to_x=to_x, to_y=to_y),)


def _scroll(call: Call, space: CoordinateSpace, pointer: Point | None) -> Actions:
    at, values = _at(call, space, "direction")
    direction = str(values.get("direction")).strip().lower()
    if direction not in _DIRECTIONS:
        raise BadAction(f"scroll: no direction {direction[:40]!r}", hint="down, up, right or left")
    dx, dy = _DIRECTIONS[direction]
    return checks.scroll(at or pointer or checks.middle(space), SCROLL_PX * dx, SCROLL_PX * dy)


def _hotkey(call: Call, space: CoordinateSpace, pointer: Point | None) -> Actions:
    values = call.bind("key", ignored=("hotkey",))
    names = checks.text_of(values.get("key", values.get("hotkey")), "key")
    return press(split_words(names) or [names])


def _type(call: Call, space: CoordinateSpace, pointer: Point | None) -> Actions:
    return checks.typed(checks.text_of(call.bind("content").get("content"), "content"))


def _finished(call: Call, space: CoordinateSpace, pointer: Point | None) -> Actions:
    content = call.bind("content").get("content", "")
    return (Done(text=checks.text_of(content, "content")[:2000]),)


def _call_user(call: Call, space: CoordinateSpace, pointer: Point | None) -> Actions:
    content = call.bind("content").get("content", "")
    return (CallUser(text=checks.text_of(content, "content")[:2000]),)


def _wait(call: Call, space: CoordinateSpace, pointer: Point | None) -> Actions:
    call.bind()
    return checks.wait(_WAIT_S)


def _other(call: Call, space: CoordinateSpace, pointer: Point | None) -> Actions:
    return checks.unsupported(call.name, {"values": call.positional, **call.named})


_READERS: dict[str, Callable[[Call, CoordinateSpace, Point | None], Actions]] = {
    "click": _pointing(lambda at: Click(x=at[0], y=at[1])),
    "left_double": _pointing(lambda at: DoubleClick(x=at[0], y=at[1])),
    "right_single": _pointing(lambda at: Click(x=at[0], y=at[1], button="right")),
    "hover": _pointing(lambda at: Hover(x=at[0], y=at[1])),
    "drag": _drag,
    "scroll": _scroll,
    "hotkey": _hotkey,
    "type": _type,
    "wait": _wait,
    "finished": _finished,
    "call_user": _call_user,
    "long_press": _other,
    "open_app": _other,
    "press_home": _other,
    "press_back": _other,
}


def write_v1(action: RecordedAction, space: CoordinateSpace) -> str:
    """One call in the form of version 1. Raises BadAction for what UI-TARS cannot say."""
    return _write(action, space, "start_box", "end_box", "<|box_start|>({},{})<|box_end|>")


def write_v1_5(action: RecordedAction, space: CoordinateSpace) -> str:
    """One call in the form of version 1.5. Raises BadAction for what UI-TARS cannot say."""
    if action.kind == "drag":
        return _write(action, space, "start_point", "end_point", "<point>{} {}</point>")
    return _write(action, space, "point", "", "<point>{} {}</point>")


def _write(action: RecordedAction, space: CoordinateSpace, start: str, end: str, form: str) -> str:
    def at(name: str, x: int, y: int) -> str:
        return f"{name}='{form.format(*space.from_screen(x, y))}'"

    a: Any = action
    match a.kind:
        case "click" if a.button != "middle":
            name = "click" if a.button == "left" else "right_single"
            return f"{name}({at(start, a.x, a.y)})"
        case "double_click":
            return f"left_double({at(start, a.x, a.y)})"
        case "drag":
            return f"drag({at(start, a.x, a.y)}, {at(end, a.to_x, a.to_y)})"
        case "scroll" if a.dx or a.dy:
            return "\n\n".join(
                f"scroll({at(start, a.x, a.y)}, direction='{way}')"
                for way, (dx, dy) in _DIRECTIONS.items()
                if dx * a.dx > 0 or dy * a.dy > 0
            )
        case "key":
            return f"hotkey(key='{' '.join(names_of(a.keys, 'pyautogui'))}')"
        case "type":
            return f"type(content={_quoted(a.text)})"
        case "wait":
            return "wait()"
        case "done" if a.status == "success":
            return f"finished(content={_quoted(a.text)})"
        case "call_user":
            return f"call_user(content={_quoted(a.text)})" if a.text else "call_user()"
    raise checks.no_word("UI-TARS", action)


def _quoted(text: str) -> str:
    for char, escape in (("\\", r"\\"), ("'", r"\'"), ("\n", r"\n"), ("\t", r"\t")):
        text = text.replace(char, escape)
    return f"'{text}'"
