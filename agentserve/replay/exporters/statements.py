"""What was done in a step as lines of PyAutoGUI, for a desktop with a browser in front."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from agentserve.core.actions.dialects import CoordinateSpace, pyautogui
from agentserve.core.actions.dialects.checks import NOTCH_PX
from agentserve.core.actions.recorded import describe
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
    box = step.target.box if step.target else None
    if act.kind == "fill" and box is not None:
        x = min(space.screen.width - 1, max(0, int(box.x + box.width / 2)))
        y = min(space.screen.height - 1, max(0, int(box.y + box.height / 2)))
        across, down = space.from_screen(x, y)
        click = f"pyautogui.click(x={across}, y={down})"
        lines = [click, _keys("ctrl", "a"), f"pyautogui.write({act.value!r})"]
        return "\n".join(lines), ["fill is written as typing over the field's text"]
    return _WAIT, [f"{describe(act)[:200]} has no equal, written as WAIT"]
