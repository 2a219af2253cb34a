"""The ``computer_use`` tool of Qwen2.5-VL and Qwen3-VL: ``<tool_call>`` with JSON in it.

As published in QwenLM/Qwen3-VL (cookbooks/utils/agent_function_call.py and the notebooks).
Qwen2.5-VL points at pixels of the picture as ``smart_resize`` leaves it; Qwen3-VL in thousandths.
``scroll`` and ``hscroll`` (``pixels``, up and to the right) and ``left_click_drag`` have no point
to begin at: they act where the mouse is. Written they follow a ``mouse_move`` in the same text.
Only a success can have a text (``answer``).
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from typing import Any

from agentserve.core.actions.dialects import checks
from agentserve.core.actions.dialects.checks import Said
from agentserve.core.actions.dialects.keys import names_of, press
from agentserve.core.actions.dialects.spaces import CoordinateSpace, Point
from agentserve.core.actions.recorded import RecordedAction
from agentserve.core.actions.union import Click, Done, DoubleClick, Drag, Hover
from agentserve.core.errors import BadAction

Actions = tuple[RecordedAction, ...]
Arguments = Mapping[str, Any]

_OPEN, _CLOSE = "<tool_call>", "</tool_call>"
_BEGIN = re.compile(re.escape(_OPEN))


def read(said: Said, space: CoordinateSpace, pointer: Point | None = None) -> Actions:
    """The actions of a text with tool calls, or of one call as JSON, whole or its arguments only;
    points in px of ``space.screen``. Raises BadAction."""
    calls = (_arguments(call) for call in _calls(said))
    return checks.in_turn(calls, lambda call, at: _of_call(call, space, at), pointer)


def _calls(said: Said) -> list[Said]:
    if not isinstance(said, str):
        return [said]
    said = checks.without_end(checks.checked_text(said))
    begins = [found.end() for found in _BEGIN.finditer(said)]
    if len(begins) > checks.MAX_ACTIONS:
        raise BadAction(f"over {checks.MAX_ACTIONS} tool calls in one answer")
    ends = [begin - len(_OPEN) for begin in begins[1:]] + [len(said)]
    return [
        said[begin:end].partition(_CLOSE)[0].strip()
        for begin, end in zip(begins, ends, strict=False)
    ] or [said]


def _arguments(call: Said) -> Arguments:
    value = checks.object_of(call, "the tool call")
    if "arguments" in value:
        if value.get("name", "computer_use") != "computer_use":
            raise BadAction(f"no tool {checks.shown(value['name'])}", hint="call computer_use")
        value = checks.object_of(value["arguments"], "arguments")
    return value


def _of_call(values: Arguments, space: CoordinateSpace, pointer: Point | None) -> Actions:
    name = checks.text_of(values.get("action"), "action")
    if name not in _READERS:
        raise BadAction(
            f"unknown action {name[:40]!r}", hint=f"known: {', '.join(sorted(_READERS))}"
        )
    return _READERS[name](values, space, pointer)


def _pointing(make: Callable[[Point], RecordedAction]) -> Callable[..., Actions]:
    def pointing(values: Arguments, space: CoordinateSpace, pointer: Point | None) -> Actions:
        if values.get("coordinate") is None:
            return (make(checks.at_pointer(pointer, values["action"])),)
        return (make(checks.point_of(values["coordinate"], space, "coordinate")),)

    return pointing


def _drag(values: Arguments, space: CoordinateSpace, pointer: Point | None) -> Actions:
    x, y = checks.at_pointer(pointer, "left_click_drag, which begins where the mouse is,")
    to_x, to_y = checks.point_of(values.get("coordinate"), space, "coordinate")
    return (Drag(x=x, y=y, to_x=to_x, to_y=to_y),)


def _wheel(across: bool) -> Callable[..., Actions]:
    def scroll(values: Arguments, space: CoordinateSpace, pointer: Point | None) -> Actions:
        at = pointer or checks.middle(space)
        if values.get("coordinate") is not None:
            at = checks.point_of(values["coordinate"], space, "coordinate")
        moved = checks.number(values.get("pixels"), "pixels")
        given = (moved, 0) if across else (0, -moved)
        return checks.scroll(at, *space.distance_to_screen(*given))

    return scroll


def _key(values: Arguments, space: CoordinateSpace, pointer: Point | None) -> Actions:
    return press(checks.texts_of(values.get("keys"), "keys"))


def _type(values: Arguments, space: CoordinateSpace, pointer: Point | None) -> Actions:
    return checks.typed(checks.text_of(values.get("text"), "text"))


def _wait(values: Arguments, space: CoordinateSpace, pointer: Point | None) -> Actions:
    return checks.wait(checks.number(values.get("time"), "time"))


def _terminate(values: Arguments, space: CoordinateSpace, pointer: Point | None) -> Actions:
    status = values.get("status")
    if status not in ("success", "failure"):
        raise BadAction("terminate: status must be success or failure")
    return (Done(status=status),)


def _answer(values: Arguments, space: CoordinateSpace, pointer: Point | None) -> Actions:
    return (Done(text=checks.text_of(values.get("text"), "text")[:2000]),)


def _other(values: Arguments, space: CoordinateSpace, pointer: Point | None) -> Actions:
    others = {name: value for name, value in values.items() if name != "action"}
    return checks.unsupported(values["action"], others)


_READERS: dict[str, Callable[[Arguments, CoordinateSpace, Point | None], Actions]] = {
    "key": _key,
    "type": _type,
    "mouse_move": _pointing(lambda at: Hover(x=at[0], y=at[1])),
    "left_click": _pointing(lambda at: Click(x=at[0], y=at[1])),
    "right_click": _pointing(lambda at: Click(x=at[0], y=at[1], button="right")),
    "middle_click": _pointing(lambda at: Click(x=at[0], y=at[1], button="middle")),
    "double_click": _pointing(lambda at: DoubleClick(x=at[0], y=at[1])),
    "triple_click": _other,
    "left_click_drag": _drag,
    "scroll": _wheel(across=False),
    "hscroll": _wheel(across=True),
    "wait": _wait,
    "terminate": _terminate,
    "answer": _answer,
}


def write(action: RecordedAction, space: CoordinateSpace) -> str:
    """The action as a text of one or more tool calls. Raises BadAction for what the tool cannot
    say."""
    calls = [{"name": "computer_use", "arguments": one} for one in _written(action, space)]
    # a typed text may hold the marks of a call; outside of texts JSON has no "<"
    texts = (json.dumps(call, ensure_ascii=False).replace("<", "\\u003c") for call in calls)
    return "\n".join(f"{_OPEN}\n{text}\n{_CLOSE}" for text in texts)


def _written(action: RecordedAction, space: CoordinateSpace) -> list[dict[str, Any]]:
    def at(name: str, x: int, y: int) -> dict[str, Any]:
        return {"action": name, "coordinate": list(space.from_screen(x, y))}

    a: Any = action
    match a.kind:
        case "click":
            return [at(f"{a.button}_click", a.x, a.y)]
        case "double_click":
            return [at("double_click", a.x, a.y)]
        case "hover":
            return [at("mouse_move", a.x, a.y)]
        case "drag":
            return [at("mouse_move", a.x, a.y), at("left_click_drag", a.to_x, a.to_y)]
        case "scroll":
            dx, dy = space.distance_from_screen(a.dx, a.dy)
            wheels = [{"action": "scroll", "pixels": -dy}] if dy or not dx else []
            wheels += [{"action": "hscroll", "pixels": dx}] if dx else []
            return [at("mouse_move", a.x, a.y), *wheels]
        case "key":
            return [{"action": "key", "keys": names_of(a.keys, "pyautogui")}]
        case "type":
            return [{"action": "type", "text": a.text}]
        case "wait":
            return [{"action": "wait", "time": a.seconds}]
        case "done" if a.text and a.status == "success":
            return [{"action": "answer", "text": a.text}]
        case "done" if not a.text:
            return [{"action": "terminate", "status": a.status}]
    raise checks.no_word("computer_use", action)
