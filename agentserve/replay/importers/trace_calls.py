"""The calls of a Playwright trace as actions, each by itself; the mouse's are in trace_mouse."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from pydantic import ValidationError

from agentserve.core.actions import Back, Click, Drag, Hover, Navigate, Type, Wait
from agentserve.core.actions.recorded import (
    CloseTab,
    Fill,
    Forward,
    HoverElement,
    KeyDown,
    KeyUp,
    OpenTab,
    Reload,
    Resize,
    Unsupported,
    WaitFor,
)
from agentserve.core.elements import ElementTarget
from agentserve.replay.account import Account
from agentserve.replay.importers.fields import Fields
from agentserve.replay.importers.keys import chord
from agentserve.replay.importers.playwright_targets import click, element
from agentserve.replay.importers.trace_events import Call

TYPED_AT_ONCE = 2000
_WAITS_MS = 5000.0


class Act(NamedTuple):
    """What a call did: several actions when ours are smaller."""

    actions: list[Any]
    target: ElementTarget | None = None
    to_target: ElementTarget | None = None


class Reader:
    """Reads calls; ``step`` is the number that the next step of ours will have."""

    def __init__(self, account: Account) -> None:
        self.account = account
        self.step = 0
        self.focused: ElementTarget | None = None
        """What was given the focus by a call of its own: the keys that follow are for it."""

    def act(self, call: Call) -> Act | None:
        """What the call did; None when it has no equal that a replay could do.

        Raises RecordingError for parameters that Playwright does not write.
        """
        read = _READERS.get(call.method.replace("ElementHandle.", "Frame."))
        if read is None:
            return None
        params = Fields(call.params, call.fields.entry)
        if not call.method.startswith("Page.keyboard"):
            self.focused = None
        try:
            act = read(self, call, params)
        except ValidationError as error:  # such as a point far outside of any screen
            reason = error.errors()[0]["msg"][:200]
            act = self.unsupported(f"{call.method}: {reason}")
        return act

    def unsupported(self, what: str) -> Act:
        self.account.lose(
            f"{what[:400]} has no equal; a replay stops there unless told to go by", self.step
        )
        return Act([Unsupported(what=what[:2000])])

    def target(
        self, call: Call, params: Fields, name: str = "selector", at: int = 0
    ) -> ElementTarget | None:
        selector = params.text(name) if name in params.values else None
        return element(
            selector,
            self.account,
            self.step,
            box=call.boxes[at] if at < len(call.boxes) else None,
            point=call.points[at] if at < len(call.points) else None,
        )


def _goto(reader: Reader, call: Call, params: Fields) -> Act:
    return Act([params.build(Navigate, url=params.text("url"))])


def _click(reader: Reader, call: Call, params: Fields, clicks: int = 1) -> Act:
    clicks = params.integer("clickCount", 1, 1000, clicks)
    modifiers = [name for name in params.list("modifiers", []) if isinstance(name, str)]
    point = call.points[0] if call.points else None
    action = click(params.text("button", "left"), clicks, modifiers, point)
    return Act([action], reader.target(call, params))


def _double_click(reader: Reader, call: Call, params: Fields) -> Act:
    return _click(reader, call, params, clicks=2)


def _tap(reader: Reader, call: Call, params: Fields) -> Act:
    reader.account.lose("a tap became a click", reader.step)
    return _click(reader, call, params)


def _hover(reader: Reader, call: Call, params: Fields) -> Act:
    target = reader.target(call, params)
    if not call.points:
        return Act([HoverElement()], target)
    x, y = (round(value) for value in call.points[0])
    return Act([Hover(x=x, y=y)], target)


def _drag(reader: Reader, call: Call, params: Fields) -> Act:
    if len(call.points) < 2:
        return reader.unsupported("a drag whose points the trace does not tell")
    (x, y), (to_x, to_y) = call.points[:2]
    action = Drag(x=round(x), y=round(y), to_x=round(to_x), to_y=round(to_y))
    return Act(
        [action],
        reader.target(call, params, "source"),
        reader.target(call, params, "target", 1),
    )


def _fill(reader: Reader, call: Call, params: Fields) -> Act:
    return Act([params.build(Fill, value=params.text("value"))], reader.target(call, params))


def _type(reader: Reader, call: Call, params: Fields) -> Act:
    return Act(typed(params.text("text")), reader.target(call, params))


def _press(reader: Reader, call: Call, params: Fields) -> Act:
    return Act(_chord(params), reader.target(call, params))


def _select(reader: Reader, call: Call, params: Fields) -> Act:
    values = call.result.get("values")
    target = reader.target(call, params)
    if not isinstance(values, list) or len(values) != 1 or not isinstance(values[0], str):
        return reader.unsupported("selecting none or several options")._replace(target=target)
    return Act([params.build(Fill, value=values[0])], target)


def _focus(reader: Reader, call: Call, params: Fields) -> Act:
    reader.focused = reader.target(call, params)
    return Act([])


def _keyboard_type(reader: Reader, call: Call, params: Fields) -> Act:
    return Act(typed(params.text("text")), reader.focused)


def _keyboard_press(reader: Reader, call: Call, params: Fields) -> Act:
    return Act(_chord(params), reader.focused)


def _keyboard_down(reader: Reader, call: Call, params: Fields) -> Act:
    return Act([KeyDown(key=params.text("key"))], reader.focused)


def _keyboard_up(reader: Reader, call: Call, params: Fields) -> Act:
    return Act([KeyUp(key=params.text("key"))], reader.focused)


def _touch(reader: Reader, call: Call, params: Fields) -> Act:
    reader.account.lose("a tap became a click", reader.step)
    return Act([Click(x=round(params.number("x")), y=round(params.number("y")))])


def _resize(reader: Reader, call: Call, params: Fields) -> Act:
    return Act([Resize(size=params.inner("viewportSize").size())])


def _wait(reader: Reader, call: Call, params: Fields) -> Act:
    name = "waitTimeout" if "waitTimeout" in params.values else "timeout"
    seconds = params.number(name) / 1000
    return Act([Wait(seconds=min(max(round(seconds), 1), 30))])


def _wait_for(reader: Reader, call: Call, params: Fields) -> Act | None:
    state = params.text("state", "visible")
    if state == "attached" or params.values.get("omitReturnValue") is False:
        return None
    visible = state == "visible"
    wait = WaitFor(visible=visible, timeout_s=_timeout_s(params, 30_000.0))
    return Act([wait], reader.target(call, params))


def _expect(reader: Reader, call: Call, params: Fields) -> Act | None:
    """Assertions that WaitFor can make; None for others."""
    expression, negated = params.text("expression"), params.true("isNot", False)
    said: dict[str, Any] = {}
    if expression in ("to.be.visible", "to.be.hidden"):
        said["visible"] = (expression == "to.be.visible") != negated
    elif expression == "to.be.checked":
        said["value"] = "false" if negated else "true"
    elif not negated and expression in ("to.have.text", "to.contain.text", "to.have.value"):
        expected = params.list("expectedText", [])
        string = expected[0].get("string") if expected and isinstance(expected[0], dict) else None
        if len(expected) != 1 or not isinstance(string, str):
            return None
        said["value" if expression == "to.have.value" else "text"] = string
    if not said:
        return None
    if expression == "to.have.text":
        reader.account.lose(
            "a text is looked for in what the element shows, more may stand there", reader.step
        )
    wait = params.build(WaitFor, timeout_s=_timeout_s(params, _WAITS_MS), **said)
    return Act([wait], reader.target(call, params))


def _just(action: Any) -> Callable[[Reader, Call, Fields], Act]:
    return lambda reader, call, params: Act([action])


def _set(value: str) -> Callable[[Reader, Call, Fields], Act]:
    return lambda reader, call, params: Act([Fill(value=value)], reader.target(call, params))


def _refused(what: str) -> Callable[[Reader, Call, Fields], Act]:
    def refuse(reader: Reader, call: Call, params: Fields) -> Act:
        return reader.unsupported(what)._replace(target=reader.target(call, params))

    return refuse


def typed(text: str) -> list[Any]:
    """What types a text of any length."""
    return [
        Type(text=text[start : start + TYPED_AT_ONCE])
        for start in range(0, len(text), TYPED_AT_ONCE)
    ]


def _chord(params: Fields) -> list[Any]:
    try:
        return chord(params.text("key"))
    except ValueError as error:
        raise params.wrong("key", "the name of a key or a chord") from error


def _timeout_s(params: Fields, default_ms: float) -> float:
    return min(max(params.number("timeout", default_ms) / 1000, 0.001), 600.0)


_READERS: dict[str, Callable[[Reader, Call, Fields], Act | None]] = {
    "Frame.goto": _goto,
    "Frame.click": _click,
    "Frame.dblclick": _double_click,
    "Frame.tap": _tap,
    "Frame.hover": _hover,
    "Frame.dragAndDrop": _drag,
    "Frame.fill": _fill,
    "Frame.type": _type,
    "Frame.press": _press,
    "Frame.check": _set("true"),
    "Frame.uncheck": _set("false"),
    "Frame.selectOption": _select,
    "Frame.focus": _focus,
    "Frame.waitForTimeout": _wait,
    "Frame.waitForSelector": _wait_for,
    "Frame.expect": _expect,
    "Frame.setInputFiles": _refused("choosing files"),
    "Frame.dispatchEvent": _refused("dispatching an event"),
    "Frame.setContent": _refused("setting the content of a page"),
    "Page.keyboardType": _keyboard_type,
    "Page.keyboardInsertText": _keyboard_type,
    "Page.keyboardPress": _keyboard_press,
    "Page.keyboardDown": _keyboard_down,
    "Page.keyboardUp": _keyboard_up,
    "Page.touchscreenTap": _touch,
    "Page.goBack": _just(Back()),
    "Page.goForward": _just(Forward()),
    "Page.reload": _just(Reload()),
    "Page.setViewportSize": _resize,
    "Page.close": _just(CloseTab()),
    "Page.bringToFront": lambda reader, call, params: Act([]),  # as the tab of any call
    "BrowserContext.newPage": _just(OpenTab()),
}
