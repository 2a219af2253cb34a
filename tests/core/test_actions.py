"""The action union and the compact dialect: what the grammar lets through parses back."""

from __future__ import annotations

import re

import pytest
from pydantic import ValidationError

from agentserve.core.actions import (
    ACTION_ADAPTER,
    KINDS,
    Back,
    CallUser,
    Click,
    Done,
    DoubleClick,
    Drag,
    Hover,
    Key,
    Navigate,
    Scroll,
    Type,
    Wait,
    action_regex,
    action_schema,
    action_to_css,
    check_inside,
    format_action,
    parse_action,
)
from agentserve.core.actions.compact import number_regex
from agentserve.core.errors import BadAction
from agentserve.core.screens import Size, screen_space

SIZE = Size(width=224, height=280)
ACTIONS = [
    Click(x=0, y=0),
    Click(x=223, y=279, button="right"),
    DoubleClick(x=112, y=84),
    Hover(x=5, y=6),
    Drag(x=10, y=20, to_x=90, to_y=20),
    Scroll(x=112, y=84, dx=0, dy=-240),
    Key(keys="Control+Shift+a"),
    Key(keys="Enter"),
    Type(text='a "quoted" word'),
    Type(text="tab\tline\nback\\slash é"),
    Type(text=""),
    Wait(seconds=30),
    Navigate(url="http://example.test/?q=1"),
    Back(),
    Done(),
    Done(status="failure", text="no such button"),
    CallUser(text="captcha"),
    CallUser(),
]


@pytest.mark.parametrize("action", ACTIONS, ids=format_action)
def test_every_action_survives_the_text_and_fits_the_grammar(action):
    text = format_action(action)
    assert parse_action(text, SIZE) == action
    assert re.fullmatch(action_regex(SIZE), text)
    assert ACTION_ADAPTER.validate_python(action.model_dump()) == action


def test_the_examples_cover_the_union():
    assert {action.kind for action in ACTIONS} == set(KINDS)


@pytest.mark.parametrize("limit", [1, 2, 9, 10, 11, 99, 100, 101, 160, 224, 1000, 1120])
def test_number_regex_takes_exactly_the_numbers_below_the_limit(limit):
    pattern = re.compile(number_regex(limit))
    taken = {n for n in range(2 * limit + 20) if pattern.fullmatch(str(n))}
    assert taken == set(range(limit))
    assert not pattern.fullmatch("01") and not pattern.fullmatch("")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "no action"),
        ("   ", "no action"),
        ("jump 1 2", "unknown action 'jump'"),
        ("click 5", r"click takes x y button\?, got 1 values"),
        ("click 1 2 left extra", "got 4 values"),
        ("click 224 0", "outside the screen of 224x280"),
        ("click -1 0", "click: x"),
        ("click 1.5 2", "x must be a whole number"),
        ("click 1 2 top", "click: button"),
        ("drag 1 1 1 280", "outside"),
        ("key Hyper+a", "key: keys"),
        ("type bare", "text must be a quoted string"),
        ('type "open', "takes text, got 2 values|quoted string"),
        ('type "bad \\x escape"', "quoted string"),
        ("wait 0", "wait: seconds"),
        ("done maybe", "done: status"),
        ("back 1", "back takes nothing"),
    ],
)
def test_what_is_no_action_says_why(text, words):
    with pytest.raises(BadAction, match=words):
        parse_action(text, SIZE)


@pytest.mark.parametrize(
    "text", ["click 224 0", "click 0 280", "wait 31", "click 1", "back ", 'type "a\nb"', "done"]
)
def test_the_grammar_refuses_what_does_not_parse(text):
    assert not re.fullmatch(action_regex(SIZE), text)


def test_the_grammar_can_be_restricted():
    pattern = action_regex(SIZE, ("click", "done"))
    assert re.fullmatch(pattern, "click 1 2") and not re.fullmatch(pattern, "back")
    for kinds in (("click", "fly"), ()):
        with pytest.raises(BadAction) as caught:
            action_regex(SIZE, kinds)
        assert "click" in (caught.value.hint or "")


def test_points_and_scroll_distances_become_css_px():
    space = screen_space(Size(width=160, height=210), 1.4, 28)  # a model screen of 224 x 280
    drag = action_to_css(Drag(x=0, y=0, to_x=223, to_y=279), space)
    assert drag == Drag(x=0, y=0, to_x=159, to_y=209)
    assert action_to_css(Back(), space) == Back()
    scroll = action_to_css(Scroll(x=112, y=140, dx=-14, dy=140), space)
    assert scroll == Scroll(x=80, y=105, dx=-10, dy=105)
    assert action_to_css(Scroll(x=0, y=0, dy=-1), space).dy == -1
    half = screen_space(Size(width=160, height=210), 14, 28)
    assert action_to_css(Scroll(x=0, y=0, dy=-1), half).dy == -1, "never nothing"


def test_points_outside_are_told():
    check_inside(Click(x=223, y=279), SIZE)
    with pytest.raises(BadAction, match=r"click at \(223, 280\)"):
        check_inside(Click(x=223, y=280), SIZE)


@pytest.mark.parametrize(
    "fields",
    [
        {"kind": "click", "x": 1, "y": 2, "force": True},
        {"kind": "fly"},
        {"x": 1, "y": 2},
        {"kind": "click", "x": 8192, "y": 0},
        {"kind": "type", "text": "x" * 2001},
    ],
)
def test_the_union_is_closed(fields):
    with pytest.raises(ValidationError):
        ACTION_ADAPTER.validate_python(fields)


def test_the_schema_names_the_wanted_kinds_only():
    schema = action_schema(("click", "back"))
    kinds = [one["properties"]["kind"]["const"] for one in schema["oneOf"]]
    assert kinds == ["click", "back"]
    assert len(action_schema()["oneOf"]) == len(KINDS)
