"""The compact dialect: one line of text per action, cheap to emit and to constrain.

    click 112 84          click 112 84 right     double_click 112 84      hover 112 84
    drag 10 20 90 20      scroll 112 84 0 240    key Control+a            type "a \\"quoted\\" word"
    wait 2                navigate "http://…"    back                     done success "text"
    call_user "why"

The regular expression stays inside what SGLang's grammar backends share: classes, groups,
alternatives and bounded repeats. Coordinates are numbers of the screen's own range, so that a
constrained model cannot point outside it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from typing import Any

from pydantic import ValidationError

from agentserve.core.actions.union import (
    ACTION_ADAPTER,
    KEY_PATTERN,
    KINDS,
    check_inside,
)
from agentserve.core.errors import BadAction
from agentserve.core.screens import MAX_SIDE, Size

MAX_TEXT = 160
_STRING = rf'"(?:[^"\\\x00-\x1f\x7f]|\\["\\nt]){{0,{MAX_TEXT}}}"'
_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[^\s"]+')

# kind -> its fields in the order of the text; "?" marks a field that may be left out at its default
_FIELDS: dict[str, tuple[str, ...]] = {
    "click": ("x", "y", "button?"),
    "double_click": ("x", "y"),
    "hover": ("x", "y"),
    "drag": ("x", "y", "to_x", "to_y"),
    "scroll": ("x", "y", "dx", "dy"),
    "key": ("keys",),
    "type": ("text",),
    "wait": ("seconds",),
    "navigate": ("url",),
    "back": (),
    "done": ("status", "text?"),
    "call_user": ("text?",),
}
_QUOTED = {"text", "url"}
_NUMBERS = {"x", "y", "to_x", "to_y", "dx", "dy", "seconds"}


def number_regex(limit: int) -> str:
    """A regular expression for the decimal numbers 0 … limit - 1, without leading zeros."""
    if limit <= 0:
        raise ValueError(f"number_regex needs a limit of at least 1, got {limit}")
    top = str(limit - 1)
    parts: list[str] = [r"[1-9]" + r"[0-9]" * (n - 1) for n in range(2, len(top))]
    # numbers of the same length as `top`: equal up to digit i, smaller there, free behind it
    for i, digit in enumerate(top):
        low = 1 if i == 0 and len(top) > 1 else 0
        if int(digit) > low:
            rest = "[0-9]" * (len(top) - i - 1)
            parts.append(f"{top[:i]}[{low}-{int(digit) - 1}]{rest}")
    parts.append(top)
    if len(top) > 1:
        parts.append("[0-9]")
    return f"(?:{'|'.join(dict.fromkeys(parts))})"


def action_regex(size: Size, kinds: Iterable[str] = KINDS) -> str:
    """The compact dialect's grammar for a screen of ``size`` model px, restricted to ``kinds``.

    Raises BadAction for a kind that is not in the union.
    """
    x, y = number_regex(size.width), number_regex(size.height)
    wheel = f"-?{number_regex(MAX_SIDE + 1)}"
    rules = {
        "click": f"click {x} {y}(?: right| middle)?",
        "double_click": f"double_click {x} {y}",
        "hover": f"hover {x} {y}",
        "drag": f"drag {x} {y} {x} {y}",
        "scroll": f"scroll {x} {y} {wheel} {wheel}",
        "key": f"key {KEY_PATTERN}",
        "type": f"type {_STRING}",
        "wait": "wait (?:[1-9]|[12][0-9]|30)",
        "navigate": f"navigate {_STRING}",
        "back": "back",
        "done": f"done (?:success|failure)(?: {_STRING})?",
        "call_user": f"call_user(?: {_STRING})?",
    }
    wanted = list(dict.fromkeys(kinds))
    unknown = [kind for kind in wanted if kind not in rules]
    if unknown or not wanted:
        raise BadAction(
            f"no such action kinds: {unknown}" if unknown else "an action needs at least one kind",
            hint=f"known kinds: {', '.join(KINDS)}",
        )
    return f"(?:{'|'.join(rules[kind] for kind in wanted)})"


def format_action(action: Any) -> str:
    """The action as one line of the compact dialect; ``parse_action`` reads it back."""
    words = [action.kind]
    for name in _FIELDS[action.kind]:
        field, optional = name.rstrip("?"), name.endswith("?")
        value = getattr(action, field)
        if optional and value == type(action).model_fields[field].default:
            continue
        words.append(json.dumps(value, ensure_ascii=False) if field in _QUOTED else str(value))
    return " ".join(words)


def parse_action(text: str, size: Size) -> Any:
    """One line of the compact dialect as an action in model px.

    Raises BadAction, whose message says what is wrong in words a model can be shown.
    """
    words = _TOKEN.findall(text.strip())
    if not words:
        raise BadAction("there is no action in the answer", hint="write one action on one line")
    kind, *values = words
    if kind not in _FIELDS:
        raise BadAction(f"unknown action {kind[:40]!r}", hint=f"known: {', '.join(KINDS)}")
    names = _FIELDS[kind]
    required = [name for name in names if not name.endswith("?")]
    if not len(required) <= len(values) <= len(names):
        raise BadAction(
            f"{kind} takes {' '.join(names) or 'nothing'}, got {len(values)} values",
            hint="an answer cut off by its token limit ends like this",
        )
    fields: dict[str, Any] = {"kind": kind}
    for name, value in zip(names, values, strict=False):
        fields[name.rstrip("?")] = _value(name.rstrip("?"), value)
    try:
        action = ACTION_ADAPTER.validate_python(fields)
    except ValidationError as error:
        first = error.errors()[0]
        raise BadAction(f"{kind}: {first['loc'][-1]}: {first['msg']}") from error
    check_inside(action, size)
    return action


def _value(field: str, word: str) -> Any:
    if field in _QUOTED:
        try:
            value = json.loads(word)
        except ValueError:
            value = None
        if not isinstance(value, str):
            raise BadAction(f"{field} must be a quoted string, got {word[:40]!r}")
        return value
    if field in _NUMBERS:
        try:
            return int(word)
        except ValueError:
            raise BadAction(f"{field} must be a whole number, got {word[:40]!r}") from None
    return word
