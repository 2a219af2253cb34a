"""Policies that solve MiniWoB++ tasks by looking at the page's DOM: the teachers of the nano model.

    step = await next_step(page, "click-button", goal)
    action = to_action(step, space)

The policies are JavaScript that runs in the page. A policy is a function of the page as it is and
of the goal; asked again after each action, it gives the next step.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Literal

from playwright.async_api import Page

from agentserve.core.actions import Action, Click, Key, Scroll, Type
from agentserve.core.errors import InvalidRequest
from agentserve.core.screens import ScreenSpace

BIN = 4
"""Points lie in the middle of bins of so many model px: fewer numbers for a model to tell apart."""

_PARTS = ("lib.js", "click.js", "shapes.js", "text.js", "forms.js", "pages.js")
_ASK = "([task, goal]) => window.agentserveOracle(task, goal)"

TASKS: tuple[str, ...] = (
    "click-test", "click-test-2", "click-test-transfer", "click-button", "click-link",
    "click-dialog", "click-dialog-2", "click-tab", "click-color", "click-widget",
    "focus-text", "focus-text-2", "unicode-test",
    "click-shape", "count-shape", "identify-shape", "grid-coordinate", "count-sides",
    "enter-text", "enter-text-dynamic", "enter-text-2", "text-transform", "enter-password",
    "login-user", "login-user-popup", "enter-date", "enter-time", "find-word", "read-table",
    "read-table-2", "simple-arithmetic", "simple-algebra", "visual-addition", "multi-orderings",
    "multi-layouts", "form-sequence-2",
    "click-option", "click-checkboxes", "click-checkboxes-transfer", "click-button-sequence",
    "odd-or-even", "click-shades", "click-collapsible-nodelay", "click-collapsible",
    "click-tab-2-easy", "click-tab-2-medium", "click-tab-2", "click-tab-2-hard",
    "click-collapsible-2-nodelay", "click-collapsible-2", "navigate-tree",
    "scroll-text-2", "scroll-text", "sign-agreement",
    "email-inbox-noscroll", "email-inbox-delete", "email-inbox-important", "email-inbox-reply",
    "email-inbox-forward", "email-inbox-star-reply", "email-inbox", "search-engine", "phone-book",
    "choose-date-easy", "use-autocomplete-nodelay",
)  # fmt: skip
"""The tasks that have a policy, named as in MiniWoB++."""


@dataclass(frozen=True)
class OracleStep:
    """What to do next on a page."""

    kind: Literal["click", "type", "key", "scroll"]
    box: tuple[float, float, float, float] | None
    """Where to click or to turn the wheel: left, top, right, bottom of the visible part, in CSS px
    of the viewport. None for the keyboard."""
    text: str
    """What to type."""
    keys: str
    """Which key or chord to press, in Playwright's names."""
    dx: int
    dy: int
    """How far to scroll, in CSS px; positive is right and down."""
    thought: str
    """What a model may say before the action: a few words on one line."""


@cache
def script() -> str:
    """JavaScript that defines ``window.agentserveOracle(task, goal)`` in a MiniWoB++ page."""
    folder = Path(__file__).parent
    parts = [(folder / part).read_text(encoding="utf-8") for part in _PARTS]
    return "\n".join(["(() => {", "'use strict';", *parts, "})()"])


async def next_step(page: Page, task: str, goal: str) -> OracleStep | None:
    """What to do next in the episode that the page shows; None when nothing is left to do, or
    nothing can be done.

    Raises InvalidRequest for a task without a policy, Playwright's error when the page shows
    another task.
    """
    if task not in TASKS:
        raise InvalidRequest(f"no policy for the task {task!r}", hint=f"known: {', '.join(TASKS)}")
    await page.evaluate(script())
    fields = await page.evaluate(_ASK, [task, goal])
    if fields is None:
        return None
    box = fields.pop("box")
    return OracleStep(box=None if box is None else tuple(box), **fields)


def to_action(step: OracleStep, space: ScreenSpace) -> Action:
    """The step as an action in model px; its point is the middle of a bin, near the box's middle.

    A click's point lies inside every box that is at least a bin wide and high.
    """
    match step.kind:
        case "type":
            return Type(text=step.text)
        case "key":
            return Key(keys=step.keys)
    assert step.box is not None, "only the keyboard has no box"
    left, top, right, bottom = step.box
    x = _nearest(space.model.width, (left + right) / 2, lambda x: space.to_css(x, 0)[0])
    y = _nearest(space.model.height, (top + bottom) / 2, lambda y: space.to_css(0, y)[1])
    if step.kind == "click":
        return Click(x=x, y=y)
    return Scroll(
        x=x,
        y=y,
        dx=round(step.dx * space.model.width / space.css.width),
        dy=round(step.dy * space.model.height / space.css.height),
    )


def _nearest(side: int, middle: float, to_css: Callable[[int], int]) -> int:
    """The middle of a bin, in model px, that is performed nearest to ``middle`` (CSS px)."""
    return min(range(BIN // 2, side, BIN), key=lambda point: abs(to_css(point) - middle))
