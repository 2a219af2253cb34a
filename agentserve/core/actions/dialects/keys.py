"""Names of keys: Playwright's, which are ours, and those of the tools that models were trained on.

One table. Its columns are one-to-one, so that what is written is read as the same key; what models
write besides is read by ``_ALIASES``. Names are read in any case.
"""

from __future__ import annotations

import re
from typing import Literal

from agentserve.core.actions.recorded import KeyDown, KeyUp, RecordedAction
from agentserve.core.actions.union import KEY_PATTERN, MODIFIERS, Key
from agentserve.core.errors import BadAction

Naming = Literal["xdotool", "pyautogui", "openai"]

# Playwright, xdotool (X keysyms), pyautogui, OpenAI
_TABLE = (
    ("Control", "ctrl", "ctrl", "CTRL"),
    ("Shift", "shift", "shift", "SHIFT"),
    ("Alt", "alt", "alt", "ALT"),
    ("Meta", "super", "win", "SUPER"),
    ("Enter", "Return", "enter", "ENTER"),
    ("Tab", "Tab", "tab", "TAB"),
    ("Escape", "Escape", "esc", "ESC"),
    ("Backspace", "BackSpace", "backspace", "BACKSPACE"),
    ("Delete", "Delete", "delete", "DELETE"),
    ("Insert", "Insert", "insert", "INSERT"),
    ("Space", "space", "space", "SPACE"),
    ("Home", "Home", "home", "HOME"),
    ("End", "End", "end", "END"),
    ("PageUp", "Page_Up", "pageup", "PAGEUP"),
    ("PageDown", "Page_Down", "pagedown", "PAGEDOWN"),
    ("ArrowUp", "Up", "up", "ARROWUP"),
    ("ArrowDown", "Down", "down", "ARROWDOWN"),
    ("ArrowLeft", "Left", "left", "ARROWLEFT"),
    ("ArrowRight", "Right", "right", "ARROWRIGHT"),
    ("CapsLock", "Caps_Lock", "capslock", "CAPSLOCK"),
    ("NumLock", "Num_Lock", "numlock", "NUMLOCK"),
    ("ScrollLock", "Scroll_Lock", "scrolllock", "SCROLLLOCK"),
    ("PrintScreen", "Print", "printscreen", "PRINTSCREEN"),
    ("Pause", "Pause", "pause", "PAUSE"),
    ("ContextMenu", "Menu", "apps", "CONTEXTMENU"),
    *((f"F{n}", f"F{n}", f"f{n}", f"F{n}") for n in range(1, 13)),
    *((c, c, c, c.upper()) for c in "abcdefghijklmnopqrstuvwxyz0123456789"),
    *(
        (char, keysym, char, char)
        for char, keysym in (
            ("+", "plus"), ("-", "minus"), ("=", "equal"), ("_", "underscore"), (",", "comma"),
            (".", "period"), ("/", "slash"), ("\\", "backslash"), (";", "semicolon"),
            (":", "colon"), ("'", "apostrophe"), ('"', "quotedbl"), ("`", "grave"),
            ("~", "asciitilde"), ("[", "bracketleft"), ("]", "bracketright"), ("{", "braceleft"),
            ("}", "braceright"), ("(", "parenleft"), (")", "parenright"), ("<", "less"),
            (">", "greater"), ("?", "question"), ("!", "exclam"), ("@", "at"),
            ("#", "numbersign"), ("$", "dollar"), ("%", "percent"), ("^", "asciicircum"),
            ("&", "ampersand"), ("*", "asterisk"), ("|", "bar"),
        )
    ),
)  # fmt: skip
_ALIASES = {
    "control": "Control", "control_l": "Control", "control_r": "Control", "ctrlleft": "Control",
    "ctrlright": "Control", "shift_l": "Shift", "shift_r": "Shift", "shiftleft": "Shift",
    "shiftright": "Shift", "alt_l": "Alt", "alt_r": "Alt", "altleft": "Alt", "altright": "Alt",
    "option": "Alt", "super_l": "Meta", "super_r": "Meta", "winleft": "Meta", "winright": "Meta",
    "windows": "Meta", "cmd": "Meta", "command": "Meta", "meta_l": "Meta", "meta_r": "Meta",
    "kp_enter": "Enter", "linefeed": "Enter", "bksp": "Backspace", "del": "Delete",
    "ins": "Insert", "spacebar": "Space", " ": "Space", "\n": "Enter", "\r": "Enter",
    "\t": "Tab", "pgup": "PageUp", "prior": "PageUp", "page up": "PageUp", "pgdn": "PageDown",
    "next": "PageDown", "page down": "PageDown", "arrow_up": "ArrowUp",
    "arrow_down": "ArrowDown", "arrow_left": "ArrowLeft", "arrow_right": "ArrowRight",
    "arrow up": "ArrowUp", "arrow down": "ArrowDown", "arrow left": "ArrowLeft",
    "arrow right": "ArrowRight", "caps lock": "CapsLock", "num lock": "NumLock",
    "scroll lock": "ScrollLock", "print screen": "PrintScreen",
    "prtsc": "PrintScreen", "prntscrn": "PrintScreen", "menu": "ContextMenu",
}  # fmt: skip
_COLUMN: dict[Naming, int] = {"xdotool": 1, "pyautogui": 2, "openai": 3}
_NAMES = {naming: {row[0]: row[at] for row in _TABLE} for naming, at in _COLUMN.items()}
_KEYS = _ALIASES | {name.lower(): row[0] for row in _TABLE for name in row}
_OURS = re.compile(KEY_PATTERN)
_SEEN = 40
MAX_KEYS = 8
"""Of one chord."""


def key_named(name: str) -> str:
    """Playwright's name of a key. Raises BadAction for one that no table holds."""
    key = _KEYS.get(name.lower()) or _KEYS.get(name.strip().lower())
    if key is None:
        raise BadAction(
            f"no key is called {name[:_SEEN]!r}",
            hint="keys are a letter, a digit, F1 to F12, or names as Enter, Escape, PageDown, ctrl",
        )
    return key


def name_of(key: str, naming: Naming) -> str:
    """A tool's name of a key in Playwright's. Raises BadAction for one it has none for."""
    try:
        return _NAMES[naming][key]
    except KeyError:
        raise BadAction(f"{naming} has no name for the key {key[:_SEEN]!r}") from None


def names_of(chord: str, naming: Naming) -> list[str]:
    """The keys of ``Key.keys``, modifiers first, in a tool's names."""
    return [name_of(key, naming) for key in chord.split("+")]


def split_chord(text: str) -> list[str]:
    """The names in a chord that is written with ``+``, as ``ctrl+plus``. Of ``ctrl++`` the last one
    is the key + itself."""
    if text == "+" or text.endswith("++"):
        return [*text[:-2].split("+"), "+"] if len(text) > 2 else ["+"]
    return text.split("+")


def split_words(text: str) -> list[str]:
    """The same of one with spaces or ``+`` between the names, which may have a space in them."""
    words = text.split()
    last = ["+"] if words and (words[-1] == "+" or words[-1].endswith("++")) else []
    words = " ".join(words).removesuffix("+" if last else "").replace("+", " ").split()
    names: list[str] = []
    for word in words:
        if names and f"{names[-1]} {word}".lower() in _KEYS:
            names[-1] += f" {word}"
        else:
            names.append(word)
    return names + last


def chord_of(names: list[str], *, shifts: bool = True) -> list[str]:
    """A chord in Playwright's names, modifiers first.

    A capital letter by itself is that letter with Shift, unless the naming is one of capitals
    (``shifts`` is False); in a chord it is only a way to write it.
    """
    if not 0 < len(names) <= MAX_KEYS:
        raise BadAction(f"a chord of {len(names)} keys", hint=f"press 1 to {MAX_KEYS} at once")
    keys = list(dict.fromkeys(key_named(name) for name in names))
    capital = len(names) == 1 and len(names[0]) == 1 and names[0].isalpha() and names[0].isupper()
    if shifts and capital:
        keys = ["Shift", *keys]
    return sorted(
        keys, key=lambda key: MODIFIERS.index(key) if key in MODIFIERS else len(MODIFIERS)
    )


def press(names: list[str], *, shifts: bool = True) -> tuple[RecordedAction, ...]:
    """Keys pressed at once and let go: one Key, or where our grammar has no such chord, each key
    down and up. ``shifts`` as in ``chord_of``. Raises BadAction."""
    keys = chord_of(names, shifts=shifts)
    chord = "+".join(keys)
    if _OURS.fullmatch(chord):
        return (Key(keys=chord),)
    return hold(keys, ())


def hold(keys: list[str], within: tuple[RecordedAction, ...]) -> tuple[RecordedAction, ...]:
    """What is done while keys, in Playwright's names, are down."""
    return (
        *(KeyDown(key=key) for key in keys),
        *within,
        *(KeyUp(key=key) for key in reversed(keys)),
    )
