from __future__ import annotations

import pytest

from agentserve.core.actions import Key
from agentserve.core.actions.dialects.keys import (
    _ALIASES,
    _COLUMN,
    _TABLE,
    key_named,
    name_of,
    press,
    split_chord,
    split_words,
)
from agentserve.core.actions.recorded import KeyDown, KeyUp
from agentserve.core.actions.union import MODIFIERS, NAMED_KEYS
from agentserve.core.errors import BadAction

NAMINGS = sorted(_COLUMN)


@pytest.mark.parametrize("naming", NAMINGS)
def test_each_naming_is_one_to_one(naming):
    names = [name_of(row[0], naming) for row in _TABLE]
    assert len(set(names)) == len(_TABLE) == len({row[0] for row in _TABLE})
    assert [key_named(name) for name in names] == [row[0] for row in _TABLE]


def test_no_name_means_two_keys():
    meanings: dict[str, set[str]] = {}
    for row in _TABLE:
        for name in row:
            meanings.setdefault(name.lower(), set()).add(row[0])
    for name, key in _ALIASES.items():
        assert name == name.lower()
        meanings.setdefault(name, set()).add(key)
    assert {name: keys for name, keys in meanings.items() if len(keys) > 1} == {}


def test_every_key_of_the_grammar_has_a_name_everywhere():
    ours = [*MODIFIERS, *NAMED_KEYS, *(f"F{n}" for n in range(1, 10)), *"az09"]
    for naming in NAMINGS:
        assert all(name_of(key, naming) for key in ours)


@pytest.mark.parametrize(
    ("names", "chord"),
    [
        (["Return"], "Enter"),
        (["ctrl", "a"], "Control+a"),
        (["a", "ctrl"], "Control+a"),
        (["CTRL", "A"], "Control+a"),
        (["shift", "ctrl", "t"], "Control+Shift+t"),
        (["Page_Down"], "PageDown"),
        (["pgdn"], "PageDown"),
        (["A"], "Shift+a"),
        (["cmd", "Left"], "Meta+ArrowLeft"),
        ([" "], "Space"),
    ],
)
def test_a_chord_of_the_grammar_is_one_key(names, chord):
    assert press(names) == (Key(keys=chord),)


@pytest.mark.parametrize(
    ("names", "keys"),
    [
        (["F12"], ["F12"]),
        (["ctrl", "plus"], ["Control", "+"]),
        (["shift"], ["Shift"]),
        (["j", "k"], ["j", "k"]),
    ],
)
def test_another_is_held_key_by_key(names, keys):
    downs, ups = [KeyDown(key=key) for key in keys], [KeyUp(key=key) for key in reversed(keys)]
    assert press(names) == (*downs, *ups)


@pytest.mark.parametrize("names", [["hyper"], [""], [], ["a"] * 9, ["ctrl", "é"]])
def test_an_unknown_key_is_refused(names):
    with pytest.raises(BadAction):
        press(names)
    with pytest.raises(BadAction):
        name_of("Hyper", "xdotool")


def test_a_chord_of_capitals_has_no_shift_of_its_own():
    assert press(["A"], shifts=False) == (Key(keys="a"),)
    assert press(["SHIFT", "A"], shifts=False) == (Key(keys="Shift+a"),)


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("ctrl+a", ["ctrl", "a"]),
        ("ctrl++", ["ctrl", "+"]),
        ("ctrl+shift++", ["ctrl", "shift", "+"]),
        ("+", ["+"]),
        ("++", ["+"]),
        ("ctrl+plus", ["ctrl", "plus"]),
        ("ctrl+", ["ctrl", ""]),
    ],
)
def test_a_chord_is_split_at_its_pluses(text, names):
    assert split_chord(text) == names


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("ctrl c", ["ctrl", "c"]),
        ("ctrl+c", ["ctrl", "c"]),
        ("ctrl + c", ["ctrl", "c"]),
        ("ctrl ++", ["ctrl", "+"]),
        ("ctrl++", ["ctrl", "+"]),
        ("ctrl +", ["ctrl", "+"]),
        ("+", ["+"]),
        ("page down", ["page down"]),
        ("ctrl Page Up", ["ctrl", "Page Up"]),
        ("shift arrow left", ["shift", "arrow left"]),
        ("ctrl alt delete", ["ctrl", "alt", "delete"]),
        (" ", []),
    ],
)
def test_a_chord_is_split_at_its_spaces(text, names):
    assert split_words(text) == names
