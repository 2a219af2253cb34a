"""Keys of other tools as actions: one Key where it is a chord that ours can say, else the keys that
go down and up. Names are Playwright's, which Chrome's Recorder shares."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, NamedTuple

from pydantic import ValidationError

from agentserve.core.actions import Key
from agentserve.core.actions.recorded import KeyDown, KeyUp
from agentserve.core.actions.union import KEY_PATTERN, MODIFIERS

_KEY = re.compile(KEY_PATTERN)
_SAME = {" ": "Space", "\r": "Enter", "\n": "Enter", "ControlOrMeta": "Control"}


class Stroke(NamedTuple):
    """A key that goes down, or up."""

    key: str
    down: bool


def chord(text: str) -> list[Any]:
    """What presses a chord as ``Control+Shift+A``. Raises ValueError when it names no key."""
    # "+" is a key as well: "Control++" is Control and +
    names = text[:-1].split("+")[:-1] + ["+"] if text.endswith("+") else text.split("+")
    if not all(names):
        raise ValueError(f"{text[:80]!r} is no key")
    names = [_SAME.get(name, name) for name in names]
    joined = "+".join(names)
    if _KEY.fullmatch(joined):
        return [Key(keys=joined)]
    try:
        downs = [KeyDown(key=name) for name in names]
    except ValidationError as error:
        raise ValueError(f"{text[:80]!r} is no key") from error
    return [*downs, *(KeyUp(key=name) for name in reversed(names))]


def chord_at(strokes: Sequence[Stroke], at: int) -> tuple[Key, int] | None:
    """The chord that begins at ``at``, and how many strokes it takes: modifiers go down, one key
    goes down and up, and the modifiers go up in any order. None: there is no such chord."""
    held: list[str] = []
    while at + len(held) < len(strokes) and strokes[at + len(held)].down:
        key = strokes[at + len(held)].key
        if key not in MODIFIERS or key in held:
            break
        held.append(key)
    key_at, length = at + len(held), 2 * len(held) + 2
    if at + length > len(strokes):
        return None
    key = strokes[key_at].key
    released = [stroke.key for stroke in strokes[key_at + 2 : at + length]]
    downs = [stroke.down for stroke in strokes[key_at : at + length]]
    if downs != [True] + [False] * (length - len(held) - 1):
        return None
    if strokes[key_at + 1].key != key or sorted(released) != sorted(held):
        return None
    joined = "+".join([*held, _SAME.get(key, key)])
    return (Key(keys=joined), length) if _KEY.fullmatch(joined) else None


def stroke(one: Stroke) -> KeyDown | KeyUp:
    """One key that goes down or up, by itself. Raises ValidationError for no name of a key."""
    key = _SAME.get(one.key, one.key)
    return KeyDown(key=key) if one.down else KeyUp(key=key)
