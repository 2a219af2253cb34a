"""What was done in a step as lines of PyAutoGUI, for a desktop with a browser in front."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from agentserve.core.actions.dialects import CoordinateSpace, pyautogui
from agentserve.core.actions.dialects.checks import NOTCH_PX
from agentserve.core.actions.dialects.keys import name_of
from agentserve.core.actions.recorded import describe
from agentserve.core.elements import ElementTarget
from agentserve.core.errors import BadAction
from agentserve.replay.bundle.format import StepLine

_WAIT = "WAIT"


def _keys(*keys: str) -> str:
    return f"pyautogui.hotkey({', '.join(map(repr, keys))})"


def _address(url: str) -> str:
    return f"pyautogui.write({url!r})\npyautogui.press('enter')"


_IN_A_BROWSER: dict[str, Callable[[Any], str]] = {
    "navigate": lambda act: f"{_keys('ctrl', 'l')}\n{_address(act.url)}",
    "open_tab": lambda act: f"{_keys('ctrl', 't')}\n{_address(act.url)}",
    "close_tab": lambda act: _keys("ctrl", "w"),
    "back": lambda act: _keys("alt", "left"),
    "forward": lambda act: _keys("alt", "right"),
    "reload": lambda act: "pyautogui.press('f5')",
}
"""What a desktop has no function for and a browser has a shortcut for."""


def _click(act: Any, at: str) -> str:
    names = [name_of(key, "pyautogui") for key in act.modifiers]
    return "\n".join(
        [
            *(f"pyautogui.keyDown({name!r})" for name in names),
            f"pyautogui.click({at}, clicks={act.clicks}, button={act.button!r})",
            *(f"pyautogui.keyUp({name!r})" for name in reversed(names)),
        ]
    )


_AT_AN_ELEMENT: dict[str, Callable[[Any, str], str]] = {
    "click_element": _click,
    "hover_element": lambda act, at: f"pyautogui.moveTo({at})",
    "fill": lambda act, at: (
        f"pyautogui.click({at})\n{_keys('ctrl', 'a')}\npyautogui.write({act.value!r})"
    ),
}
"""What is done to an element, at a point of the screen."""


def _middle(target: ElementTarget | None, space: CoordinateSpace) -> str | None:
    """Where an element was acted on, if that is known and on the screen."""
    if target is None or target.box is None:
        return None
    box, offset = target.box, target.offset or (target.box.width / 2, target.box.height / 2)
    x, y = int(box.x + offset[0]), int(box.y + offset[1])
    if not (0 <= x < space.screen.width and 0 <= y < space.screen.height):
        return None
    across, down = space.from_screen(x, y)
    return f"x={across}, y={down}"


def statements_of(step: StepLine, space: CoordinateSpace) -> tuple[str, list[str]]:
    """The lines, and what they do not say. What cannot be done on a desktop becomes ``WAIT``."""
    act: Any = step.performed
    if act is None:
        return _WAIT, ["nothing was done, written as WAIT"]
    try:
        text = pyautogui.write(act, space)
    except BadAction:
        return _otherwise(step, act, space)
    return text, _unsaid(act)


def _unsaid(act: Any) -> list[str]:
    if act.kind == "done" and act.text:
        return ["the text of its end has no place"]
    if act.kind == "scroll" and _odd(act):
        return [f"a scroll of ({act.dx}, {act.dy}) px is written as whole notches of the wheel"]
    return []


def _odd(act: Any) -> bool:
    return bool(act.dx % NOTCH_PX or act.dy % NOTCH_PX)


def _otherwise(step: StepLine, act: Any, space: CoordinateSpace) -> tuple[str, list[str]]:
    if act.kind in _IN_A_BROWSER:
        return _IN_A_BROWSER[act.kind](act), [f"{act.kind} is written as a browser's shortcut"]
    at = _middle(step.target, space)
    if at is not None and act.kind in _AT_AN_ELEMENT:
        return _AT_AN_ELEMENT[act.kind](act, at), [
            f"{act.kind} is written for where its element was"
        ]
    return _WAIT, [f"{describe(act)[:200]} has no equal, written as WAIT"]
