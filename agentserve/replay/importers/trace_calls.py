"""The calls of a Playwright trace as actions, each by itself; the mouse's are in trace_mouse."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from pydantic import ValidationError

from agentserve.core.actions import Back, Click, Drag, Hover, Navigate, Type
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
from agentserve.core.screens import Size
from agentserve.replay.account import Account, shortened
from agentserve.replay.addresses import whole_address
from agentserve.replay.importers.fields import Fields
from agentserve.replay.importers.keys import chord
from agentserve.replay.importers.losses import timeout_s, waits
from agentserve.replay.importers.playwright_targets import click, element, outside, pixel
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

    def __init__(self, account: Account, viewport: Size, base_url: str = "") -> None:
        """``base_url`` is what addresses of calls are seen from; empty: they are whole."""
        self.account = account
        self.viewport = viewport
        self.base_url = base_url
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
        if params.values.get("trial") is True:  # it only looks whether it could be done
            return None
        if not call.method.startswith("Page.keyboard"):
            self.focused = None
        try:
            act = read(self, call, params)
        except ValidationError as error:  # such as the name of a key that no key has
            reason = error.errors()[0]["msg"][:200]
            act = _unsupported(f"{call.method}: {reason}")
        return act

    def pixel(self, call: Call) -> tuple[int, int] | None:
        """Where the call's first input went; None when that is not known, or not on the screen."""
        point = call.points[0] if call.points else None
        at = pixel(point, self.viewport) if point is not None else None
        if point is not None and at is None:
            x, y = point
            self.account.lose(
                f"the point ({x:g}, {y:g}) is outside of the viewport of {self.viewport}: its "
                "element is used without it",
                self.step,
            )
        return at

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
            offset=_offset(params),
        )


def _offset(params: Fields) -> tuple[float, float] | None:
    """In the element, where the call says it; where its input went says the trace more surely."""
    if not isinstance(params.values.get("position"), dict):
        return None
    position = params.inner("position")
    return position.number("x"), position.number("y")


def _goto(reader: Reader, call: Call, params: Fields) -> Act:
    url = whole_address(reader.base_url, params.text("url"))
    return Act([params.build(Navigate, url=url)])


def _click(reader: Reader, call: Call, params: Fields, clicks: int = 1) -> Act:
    clicks = params.integer("clickCount", 1, 1000, clicks)
    modifiers = [name for name in params.list("modifiers", []) if isinstance(name, str)]
    action = click(params.text("button", "left"), clicks, modifiers, reader.pixel(call))
    return Act([action], reader.target(call, params))


def _double_click(reader: Reader, call: Call, params: Fields) -> Act:
    return _click(reader, call, params, clicks=2)


def _tap(reader: Reader, call: Call, params: Fields) -> Act:
    reader.account.lose("a tap became a click", reader.step)
    return _click(reader, call, params)


def _hover(reader: Reader, call: Call, params: Fields) -> Act:
    target = reader.target(call, params)
    at = reader.pixel(call)
    return Act([HoverElement() if at is None else Hover(x=at[0], y=at[1])], target)


def _drag(reader: Reader, call: Call, params: Fields) -> Act:
    if len(call.points) < 2:
        return _unsupported("a drag whose points the trace does not tell")
    start, end = (pixel(point, reader.viewport) for point in call.points[:2])
    action: Any
    if start is None or end is None:
        action = outside("a drag with an end", call.points[start is not None], reader.viewport)
    else:
        action = Drag(x=start[0], y=start[1], to_x=end[0], to_y=end[1])
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
        return _unsupported("selecting none or several options")._replace(target=target)
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
    point = params.number("x"), params.number("y")
    at = pixel(point, reader.viewport)
    if at is None:
        return Act([outside("a tap", point, reader.viewport)])
    return Act([Click(x=at[0], y=at[1])])


def _resize(reader: Reader, call: Call, params: Fields) -> Act:
    return Act([Resize(size=params.inner("viewportSize").size())])


def _wait(reader: Reader, call: Call, params: Fields) -> Act:
    name = "waitTimeout" if "waitTimeout" in params.values else "timeout"
    return Act([*waits(params.number(name) / 1000, reader.account, reader.step)])


def _wait_for(reader: Reader, call: Call, params: Fields) -> Act | None:
    state = params.text("state", "visible")
    if state == "attached" or params.values.get("omitReturnValue") is False:
        return None
    visible = state == "visible"
    most = timeout_s(params, 30_000.0, reader.account, reader.step)
    wait = WaitFor(visible=visible, timeout_s=most)
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
    most = timeout_s(params, _WAITS_MS, reader.account, reader.step)
    wait = params.build(WaitFor, timeout_s=most, **said)
    return Act([wait], reader.target(call, params))


def _just(action: Any) -> Callable[[Reader, Call, Fields], Act]:
    return lambda reader, call, params: Act([action])


def _set(value: str) -> Callable[[Reader, Call, Fields], Act]:
    return lambda reader, call, params: Act([Fill(value=value)], reader.target(call, params))


def _refused(what: str) -> Callable[[Reader, Call, Fields], Act]:
    def refuse(reader: Reader, call: Call, params: Fields) -> Act:
        return _unsupported(what)._replace(target=reader.target(call, params))

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


def _unsupported(what: str) -> Act:
    return Act([Unsupported(what=shortened(what, 2000))])


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
