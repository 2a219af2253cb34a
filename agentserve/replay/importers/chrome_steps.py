"""The steps of Chrome's Recorder but its keys, of which several make one action."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from pydantic import ValidationError

from agentserve.core.actions import Navigate
from agentserve.core.actions.recorded import (
    RECORDED_ACTION_ADAPTER,
    ClickElement,
    CloseTab,
    Fill,
    HoverElement,
    Resize,
    ScrollTo,
    Unsupported,
    WaitFor,
)
from agentserve.core.elements import ElementTarget
from agentserve.core.errors import RecordingError
from agentserve.core.screens import Size
from agentserve.replay.account import Account, shortened
from agentserve.replay.importers.chrome_selectors import chains_of
from agentserve.replay.importers.fields import Fields
from agentserve.replay.importers.losses import timeout_s
from agentserve.replay.importers.sources import words

CUSTOM_STEP = "agentserve"
"""The name of custom steps that hold an action of ours."""

_BUTTONS = {"primary": "left", "auxiliary": "middle", "secondary": "right"}
_LONG_PRESS_MS = 350


class Read(NamedTuple):
    """What a step is."""

    action: Any
    target: ElementTarget | None = None
    to_target: ElementTarget | None = None


@dataclass
class Flow:
    """What is known of a flow while its steps are read."""

    timeout_ms: float
    account: Account = field(default_factory=Account)
    index: int = 0
    """Of our step that is being read."""
    viewport: Size | None = None
    scale: float = 1.0

    def note(self, sentence: str) -> None:
        """Of the step that is being read."""
        self.account.lose(sentence, self.index)

    def target(self, step: Fields, **known: Any) -> ElementTarget:
        chains, notes = chains_of(step)
        for sentence in notes:
            self.note(sentence)
        if not chains:
            self.note("none of its selectors can be used: its element is not found again")
        return step.build(ElementTarget, selectors=chains, **known)

    def timeout_s(self, step: Fields) -> float:
        return timeout_s(step, self.timeout_ms, self.account, self.index)


def _viewport(flow: Flow, step: Fields) -> Read:
    size, scale = step.size(), step.number("deviceScaleFactor", 1.0)
    for name in ("isMobile", "hasTouch"):
        if step.true(name, False):
            flow.note(f"{name} is not emulated")
    if flow.viewport is None:
        if not 0 < scale <= 8:
            raise step.wrong("deviceScaleFactor", "a number above 0, at most 8")
        flow.viewport, flow.scale = size, scale
    elif scale != flow.scale:
        flow.note("the device scale factor stays what it was")
    return Read(Resize(size=size))


def _navigate(flow: Flow, step: Fields) -> Read:
    return Read(step.build(Navigate, url=step.text("url")))


def _click(flow: Flow, step: Fields, clicks: int = 1) -> Read:
    if step.text("deviceType", "mouse") != "mouse":
        flow.note(f"a {words(step.values['deviceType'])} became the mouse")
    if step.number("duration", 50.0) > _LONG_PRESS_MS:
        flow.note("the button is not held for as long")
    known: dict[str, Any] = {}
    if "offsetX" in step.values or "offsetY" in step.values:
        known["offset"] = (step.number("offsetX"), step.number("offsetY"))
    target = flow.target(step, **known)
    button = _BUTTONS.get(step.text("button", "primary"))
    if button is None:
        what = f"a click of the button {words(step.values['button'])}"
        return _unsupported(what)._replace(target=target)
    return Read(step.build(ClickElement, button=button, clicks=clicks), target)


def _double_click(flow: Flow, step: Fields) -> Read:
    return _click(flow, step, clicks=2)


def _hover(flow: Flow, step: Fields) -> Read:
    return Read(HoverElement(), flow.target(step))


def _change(flow: Flow, step: Fields) -> Read:
    return Read(step.build(Fill, value=step.text("value")), flow.target(step))


def _scroll(flow: Flow, step: Fields) -> Read:
    target = flow.target(step) if step.list("selectors", []) else None
    if target is None and step.list("frame", []):
        flow.note("the page scrolls instead of the frame")
    scroll = step.build(ScrollTo, x=step.number("x", 0.0), y=step.number("y", 0.0))
    return Read(scroll, target)


def _wait_for_element(flow: Flow, step: Fields) -> Read:
    target = flow.target(step)
    count, operator = step.integer("count", 0, 1_000_000, 1), step.text("operator", "==")
    if operator not in ("==", ">=", "<="):
        raise step.wrong("operator", "one of ==, >= and <=")
    if operator == "<=" and count > 0 or operator == ">=" and count == 0:
        what = f"waiting for {operator} {count} elements"
        return _unsupported(what)._replace(target=target)
    if count > 1:
        flow.note(f"waits for one element, not for {operator} {count}")
    for name in ("properties", "attributes"):
        if step.values.get(name):
            flow.note(f"waits for the element without its {name}")
    visible = count > 0 and step.true("visible", True)
    return Read(WaitFor(visible=visible, timeout_s=flow.timeout_s(step)), target)


def _wait_for_expression(flow: Flow, step: Fields) -> Read:
    if step.list("frame", []):
        flow.note("the expression is asked of the page instead of the frame")
    expression = step.text("expression")
    return Read(step.build(WaitFor, expression=expression, timeout_s=flow.timeout_s(step)))


def _close(flow: Flow, step: Fields) -> Read:
    return Read(CloseTab())


def _network(flow: Flow, step: Fields) -> Read:
    return _unsupported("emulating the conditions of a network")


def _custom(flow: Flow, step: Fields) -> Read:
    """A step of an extension; ours when an export of ours put it there."""
    name = step.text("name")
    if name != CUSTOM_STEP:
        return _unsupported(f"the custom step {words(name)}")
    parameters = step.inner("parameters").values
    try:
        action = RECORDED_ACTION_ADAPTER.validate_python(parameters.get("action"))
        targets = [
            None if (value := parameters.get(name)) is None else ElementTarget.model_validate(value)
            for name in ("target", "to_target")
        ]
        return Read(action, *targets)
    except ValidationError as error:
        raise RecordingError(
            f"{step.entry}: its parameters are no action and target of agentserve"
        ) from error


def _unsupported(what: str) -> Read:
    return Read(Unsupported(what=shortened(what, 2000)))


STEPS: dict[str, Callable[[Flow, Fields], Read]] = {
    "setViewport": _viewport,
    "navigate": _navigate,
    "click": _click,
    "doubleClick": _double_click,
    "hover": _hover,
    "change": _change,
    "scroll": _scroll,
    "waitForElement": _wait_for_element,
    "waitForExpression": _wait_for_expression,
    "close": _close,
    "emulateNetworkConditions": _network,
    "customStep": _custom,
}
