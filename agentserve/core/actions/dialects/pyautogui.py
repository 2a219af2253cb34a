"""Lines of Python that call PyAutoGUI, as agents write them for OSWorld (pixels of the display) and
in AgentNet (fractions of the screen); never executed.

As published in the documentation of PyAutoGUI, in OSWorld's prompts (``WAIT``, ``DONE``, ``FAIL``,
``time.sleep``) and in the data of OpenCUA (``computer.wait``, ``computer.triple_click``,
``computer.terminate``). A function without a point acts where the mouse is: after the statement
before it, or at the ``pointer`` that the caller knows. PyAutoGUI counts the wheel in notches, up
and to the right; they are read as NOTCH_PX each and written as the nearest whole number. Pauses are
rounded up to whole seconds. ``DONE`` and ``FAIL`` have no text: what Done says is not written.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from agentserve.core.actions.dialects import checks
from agentserve.core.actions.dialects.calls import Call, read_calls
from agentserve.core.actions.dialects.checks import Said
from agentserve.core.actions.dialects.keys import key_named, name_of, names_of, press
from agentserve.core.actions.dialects.spaces import CoordinateSpace, Point
from agentserve.core.actions.recorded import KeyDown, KeyUp, RecordedAction
from agentserve.core.actions.union import Click, Done, DoubleClick, Drag, Hover
from agentserve.core.errors import BadAction

Actions = tuple[RecordedAction, ...]

_WORDS: dict[str, Callable[[], Actions]] = {
    "WAIT": lambda: checks.wait(1),
    "DONE": lambda: (Done(),),
    "FAIL": lambda: (Done(status="failure"),),
}
_PACE = ("duration", "interval", "tween", "logScreenshot", "_pause")
"""Arguments that say how fast, or change nothing."""
_MAX_PRESSES = 50


def read(said: Said, space: CoordinateSpace, pointer: Point | None = None) -> Actions:
    """The actions of a text of statements, points in px of ``space.screen``. Raises BadAction."""
    text = checks.without_end(checks.text_of(said, "the answer"))
    if text.startswith("```"):
        text = text.strip("`").removeprefix("python").strip()
    if text in _WORDS:
        return _WORDS[text]()
    return read_each(read_calls(text), space, pointer)


def read_each(calls: Iterable[Call], space: CoordinateSpace, pointer: Point | None) -> Actions:
    """The same of calls that somebody else has parsed."""
    return checks.in_turn(calls, lambda call, at: _of_call(call, space, at), pointer)


def _of_call(call: Call, space: CoordinateSpace, pointer: Point | None) -> Actions:
    module, _, name = call.name.rpartition(".")
    if module in {"pyautogui", "computer", "time", ""} and name in _READERS:
        return _READERS[name](call, space, pointer)
    raise BadAction(
        f"no function {call.name[:60]!r} is known",
        hint=f"pyautogui has: {', '.join(sorted(_READERS))}",
    )


def _at(values: dict[str, Any], space: CoordinateSpace, pointer: Point | None, what: str) -> Point:
    """Of the arguments x and y, or where the mouse is; ``x=[x, y]`` is read, too."""
    x, y = values.get("x"), values.get("y")
    if isinstance(x, list) and y is None:
        return checks.point_of(x, space, what)
    if x is None and y is None:
        return checks.at_pointer(pointer, what)
    return checks.point_of([x, y], space, what)


def _click(call: Call, space: CoordinateSpace, pointer: Point | None) -> Actions:
    values = call.bind("x", "y", "clicks", "interval", "button", ignored=_PACE)
    x, y = _at(values, space, pointer, call.name)
    button = str(values.get("button", "left")).lower()
    button = {"primary": "left", "secondary": "right"}.get(button, button)
    if button not in {"left", "right", "middle"}:
        raise BadAction(f"{call.name}: no button {button[:40]!r}")
    clicks = checks.number(values.get("clicks", 1), "clicks")
    if clicks == 1:
        return (Click(x=x, y=y, button=button),)
    if clicks == 2 and button == "left":
        return (DoubleClick(x=x, y=y),)
    return checks.unsupported(f"{call.name} of {clicks:g} clicks", values)


def _fixed(button: str, clicks: int) -> Callable[[Call, CoordinateSpace, Point | None], Actions]:
    def click(call: Call, space: CoordinateSpace, pointer: Point | None) -> Actions:
        names = ("x", "y", "interval") if clicks > 1 else ("x", "y")
        values = call.bind(*names, ignored=(*_PACE, "button"))
        placed = {name: values[name] for name in ("x", "y") if name in values}
        same = Call(call.name, (), {**placed, "clicks": clicks, "button": button})
        return _click(same, space, pointer)

    return click


def _move(call: Call, space: CoordinateSpace, pointer: Point | None) -> Actions:
    x, y = _at(call.bind("x", "y", *_PACE), space, pointer, call.name)
    return (Hover(x=x, y=y),)


def _drag(call: Call, space: CoordinateSpace, pointer: Point | None) -> Actions:
    values = call.bind("x", "y", "duration", "tween", "button", ignored=(*_PACE, "mouseDownUp"))
    to_x, to_y = _at(values, space, None, call.name)
    x, y = checks.at_pointer(pointer, f"{call.name}, which begins where the mouse is,")
    if values.get("button", "left") not in ("left", "primary"):
        return checks.unsupported(call.name, values)
    return (Drag(x=x, y=y, to_x=to_x, to_y=to_y),)


def _wheel(across: bool) -> Callable[[Call, CoordinateSpace, Point | None], Actions]:
    def scroll(call: Call, space: CoordinateSpace, pointer: Point | None) -> Actions:
        values = call.bind("clicks", "x", "y", ignored=_PACE)
        at = _at(values, space, pointer or checks.middle(space), call.name)
        px = checks.notches(checks.number(values.get("clicks"), "clicks"))
        return checks.scroll(at, px, 0) if across else checks.scroll(at, 0, -px)

    return scroll


def _write(call: Call, space: CoordinateSpace, pointer: Point | None) -> Actions:
    values = call.bind("message", "interval", ignored=("text", *_PACE))
    message = values.get("message", values.get("text"))
    if isinstance(message, list):
        return tuple(one for key in message for one in press([checks.text_of(key, "a key")]))
    return checks.typed(checks.text_of(message, "message"))


def _press(call: Call, space: CoordinateSpace, pointer: Point | None) -> Actions:
    values = call.bind("keys", "presses", "interval", ignored=("key", *_PACE))
    keys = values.get("keys", values.get("key"))
    names = [keys] if isinstance(keys, str) else checks.texts_of(keys, "keys")
    presses = checks.number(values.get("presses", 1), "presses")
    if not 1 <= presses <= _MAX_PRESSES:
        raise BadAction(f"cannot press a key {presses:g} times", hint=f"{_MAX_PRESSES} is most")
    return tuple(one for name in names for one in press([name])) * int(presses)


def _hotkey(call: Call, space: CoordinateSpace, pointer: Point | None) -> Actions:
    values: Any = list(call.positional) or call.named.get("keys")
    if isinstance(values, list) and len(values) == 1 and isinstance(values[0], list):
        values = values[0]
    return press([values] if isinstance(values, str) else checks.texts_of(values, "keys"))


def _held(kind: type[KeyDown] | type[KeyUp]) -> Callable[..., Actions]:
    def key(call: Call, space: CoordinateSpace, pointer: Point | None) -> Actions:
        return (kind(key=key_named(checks.text_of(call.bind("key").get("key"), "key"))),)

    return key


def _wait(call: Call, space: CoordinateSpace, pointer: Point | None) -> Actions:
    values = call.bind("seconds", ignored=("secs",))
    return checks.wait(checks.number(values.get("seconds", values.get("secs", 1)), "seconds"))


def _terminate(call: Call, space: CoordinateSpace, pointer: Point | None) -> Actions:
    values = call.bind("status", "answer", ignored=("data",))
    text = checks.text_of(values.get("answer", values.get("data", "")), "answer")
    failed = values.get("status", "success") not in ("success", "successful")
    return (Done(status="failure" if failed else "success", text=text[:2000]),)


def _other(call: Call, space: CoordinateSpace, pointer: Point | None) -> Actions:
    return checks.unsupported(call.name, {"values": call.positional, **call.named})


_READERS: dict[str, Callable[[Call, CoordinateSpace, Point | None], Actions]] = {
    "click": _click,
    "leftClick": _fixed("left", 1),
    "rightClick": _fixed("right", 1),
    "middleClick": _fixed("middle", 1),
    "doubleClick": _fixed("left", 2),
    "double_click": _fixed("left", 2),
    "tripleClick": _fixed("left", 3),
    "triple_click": _fixed("left", 3),
    "moveTo": _move,
    "dragTo": _drag,
    "scroll": _wheel(across=False),
    "vscroll": _wheel(across=False),
    "hscroll": _wheel(across=True),
    "write": _write,
    "typewrite": _write,
    "press": _press,
    "hotkey": _hotkey,
    "keyDown": _held(KeyDown),
    "keyUp": _held(KeyUp),
    "sleep": _wait,
    "wait": _wait,
    "terminate": _terminate,
    "mouseDown": _other,
    "mouseUp": _other,
    "move": _other,
    "moveRel": _other,
    "drag": _other,
    "dragRel": _other,
    "screenshot": _other,
}


def write(action: RecordedAction, space: CoordinateSpace) -> str:
    """The action as statements, a line each. Raises BadAction for Navigate, Back, CallUser and
    other kinds that a desktop has no one call for."""

    def at(x: int, y: int) -> str:
        across, down = space.from_screen(x, y)
        return f"x={across}, y={down}"

    a: Any = action
    match a.kind:
        case "click":
            button = "" if a.button == "left" else f", button={a.button!r}"
            return f"pyautogui.click({at(a.x, a.y)}{button})"
        case "double_click":
            return f"pyautogui.doubleClick({at(a.x, a.y)})"
        case "hover":
            return f"pyautogui.moveTo({at(a.x, a.y)})"
        case "drag":
            start, end = at(a.x, a.y), at(a.to_x, a.to_y)
            return f"pyautogui.moveTo({start})\npyautogui.dragTo({end}, button='left')"
        case "scroll":
            wheels = (("scroll", -checks.notches_of(a.dy)), ("hscroll", checks.notches_of(a.dx)))
            turned = [(name, count) for name, count in wheels if count] or [wheels[0]]
            return "\n".join(f"pyautogui.{name}({n}, {at(a.x, a.y)})" for name, n in turned)
        case "key" | "key_down" | "key_up":
            return _write_keys(a)
        case "type":
            return f"pyautogui.write({a.text!r})"
        case "wait":
            return f"time.sleep({a.seconds})"
        case "done":
            return "DONE" if a.status == "success" else "FAIL"
    raise checks.no_word("pyautogui", action)


def _write_keys(action: Any) -> str:
    if action.kind == "key":
        names = names_of(action.keys, "pyautogui")
        function = "hotkey" if len(names) > 1 else "press"
        return f"pyautogui.{function}({', '.join(map(repr, names))})"
    function = "keyDown" if action.kind == "key_down" else "keyUp"
    return f"pyautogui.{function}({name_of(action.key, 'pyautogui')!r})"
