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
from agentserve.replay.exporters.places import Focus

_WAIT = "WAIT"
_TYPED = frozenset("\t\n\r" + "".join(map(chr, range(0x20, 0x7F))))
"""The characters that PyAutoGUI has keys for; it goes by all others."""
_MAX_SHOWN = 20


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


def _over(text: str) -> str:
    """What replaces what is selected."""
    return f"pyautogui.write({text!r})" if text else "pyautogui.press('delete')"


_AT_AN_ELEMENT: dict[str, Callable[[Any, str], str]] = {
    "click_element": _click,
    "hover_element": lambda act, at: f"pyautogui.moveTo({at})",
    "fill": lambda act, at: f"pyautogui.click({at})\n{_keys('ctrl', 'a')}\n{_over(act.value)}",
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


def statements_of(step: StepLine, space: CoordinateSpace, focus: Focus) -> tuple[str, list[str]]:
    """The lines, and what they do not say. What cannot be done on a desktop becomes ``WAIT``.

    ``focus`` is what the steps before have left.
    """
    act: Any = step.performed
    if act is None:
        return _WAIT, ["nothing was done, written as WAIT"]
    try:
        text = pyautogui.write(act, space)
    except BadAction:
        text, lost = _otherwise(step, act, space)
        return text, lost if text == _WAIT else lost + _not_typed(act)
    if act.kind in ("type", "key", "key_down") and step.target is not None:
        if not focus.is_on(step.target):
            at = _middle(step.target, space) if act.kind == "type" else None
            clicked = [f"pyautogui.click({at})"] if at is not None else []
            unsaid = _FOCUSED if clicked else _NOT_FOCUSED
            return "\n".join([*clicked, text]), [unsaid, *_not_typed(act)]
    return text, _unsaid(act) + _not_typed(act)


_FOCUSED = "it clicks the element before it types: keys of a desktop have none"
_NOT_FOCUSED = "its keys go to what has the focus, which may be another element"


def _not_typed(act: Any) -> list[str]:
    """Of the text that is written key by key."""
    texts = [getattr(act, name) for name in ("text", "value", "url") if hasattr(act, name)]
    typed = "" if act.kind == "done" else "".join(texts)
    missing = "".join(dict.fromkeys(char for char in typed if char not in _TYPED))
    if not missing:
        return []
    more = "…" if len(missing) > _MAX_SHOWN else ""
    return [f"PyAutoGUI has no keys for {missing[:_MAX_SHOWN]!r}{more}: they are not typed"]


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
        lost = [f"{act.kind} is written for where its element was"]
        if act.kind == "fill" and act.value in ("true", "false"):
            lost.append("it types a text, it does not check a box")
        return _AT_AN_ELEMENT[act.kind](act, at), lost
    return _WAIT, [f"{describe(act)[:200]} has no equal, written as WAIT"]
