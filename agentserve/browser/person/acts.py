"""From what a person did to actions of a recording. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Any

from agentserve.browser.person.hidden import Hidden
from agentserve.browser.person.messages import (
    Begin,
    Clicked,
    Dragged,
    Held,
    Message,
    Pressed,
    Scrolled,
    Set,
    Typed,
    Unknown,
)
from agentserve.core.actions import Click, DoubleClick, Drag, Key, Scroll, Type
from agentserve.core.actions.recorded import Fill, Unsupported
from agentserve.core.actions.union import KEY_PATTERN
from agentserve.core.elements import ElementTarget
from agentserve.core.screens import MAX_SIDE
from agentserve.core.secret_names import placeholder

MAX_TYPED = 2000
"""Of a Type action."""


@dataclass(frozen=True)
class Act:
    action: Any
    """A RecordedAction."""
    target: ElementTarget | None = None
    to_target: ElementTarget | None = None
    typing: bool = False
    """It is what a person has typed into a field so far."""
    secret: str = ""
    """The name that stands for what was typed."""


def act_of(message: Message, hidden: Hidden) -> Act | None:
    """The act that a message is about; None for what only begins."""
    match message:
        case Begin():
            return None
        case Held(value=value, passing=passing):
            hidden.held(value, passing, message.target)
            return None
        case Clicked(x=x, y=y, count=2, button="left"):
            return Act(DoubleClick(x=x, y=y), message.target)
        case Clicked(x=x, y=y, button=button):
            return Act(Click(x=x, y=y, button=button), message.target)
        case Dragged(x=x, y=y, to_x=to_x, to_y=to_y):
            drag = Drag(x=x, y=y, to_x=to_x, to_y=to_y)
            return Act(drag, message.target, message.to_target)
        case Scrolled(x=x, y=y):
            dx, dy = (max(-MAX_SIDE, min(MAX_SIDE, each)) for each in (message.dx, message.dy))
            return Act(Scroll(x=x, y=y, dx=dx, dy=dy))
        case Typed():
            return _typed(message, hidden)
        case Set(value=value):
            return Act(Fill(value=value), message.target)
        case Pressed(keys=keys):
            return _pressed(keys)
        case Unknown(what=what):
            return Act(Unsupported(what=what))


def _typed(message: Typed, hidden: Hidden) -> Act:
    text, value = message.text, message.value
    if message.secret:
        name = hidden.typed(value, message.passing, message.target)
        value = placeholder(name) if value else ""
        return Act(Fill(value=value), message.target, typing=True, secret=name)
    if text is not None and len(text) <= MAX_TYPED:
        return Act(Type(text=text), message.target, typing=True)
    return Act(Fill(value=value), message.target, typing=True)


def _pressed(keys: str) -> Act:
    if re.fullmatch(KEY_PATTERN, keys):
        return Act(Key(keys=keys))
    if len(keys) == 1:
        return Act(Type(text=keys))
    return Act(Unsupported(what=f"the keys {keys}"))


def merged(before: Act, after: Act) -> Act | None:
    """Both as one act; None when they are two."""
    a, b = before.action, after.action
    if isinstance(a, Click) and isinstance(b, DoubleClick) and abs(a.x - b.x) + abs(a.y - b.y) < 8:
        return after if a.button == "left" else None
    if before.typing and after.typing and _same_field(before, after):
        if isinstance(a, Type) and isinstance(b, Type):
            text = a.text + b.text
            return replace(before, action=Type(text=text)) if len(text) <= MAX_TYPED else None
        if isinstance(a, Fill) and isinstance(b, Type):
            return replace(before, action=Fill(value=a.value + b.text))
        if isinstance(b, Fill):
            return replace(before, action=b, secret=after.secret)
    return None


def _same_field(before: Act, after: Act) -> bool:
    first, second = before.target, after.target
    return (
        first is not None
        and second is not None
        and bool(set(first.selectors) & set(second.selectors))
    )
