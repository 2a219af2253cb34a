"""Every dialect: what it writes it reads, and no text makes it do anything but read or refuse."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentserve.core.actions import (
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
)
from agentserve.core.actions.dialects import (
    DIALECTS,
    Dialect,
    dialect_named,
    pyautogui,
    ui_tars,
)
from agentserve.core.actions.dialects.checks import MAX_ACTIONS, MAX_SAID
from agentserve.core.actions.recorded import RECORDED_ACTION_ADAPTER, Forward, KeyDown, KeyUp
from agentserve.core.errors import BadAction, InvalidRequest
from agentserve.core.screens import Size

SCREEN = Size(width=1120, height=672)
EXACT = [dialect for dialect in DIALECTS if dialect.name not in {"ui_tars_v1", "qwen3_vl"}]
COARSE = [dialect for dialect in DIALECTS if dialect not in EXACT]
POINTING = [
    Click(x=0, y=0),
    Click(x=1119, y=671),
    Click(x=320, y=244, button="right"),
    DoubleClick(x=560, y=84),
    Drag(x=10, y=20, to_x=990, to_y=600),
]
OTHERS = [
    Key(keys="Control+Shift+a"),
    Key(keys="PageDown"),
    Key(keys="a"),
    Key(keys="Shift+a"),
    Type(text='it\'s "so"\nC:\\temp \\d é'),
    Type(text=""),
]
OF_UI_TARS = [CallUser(), CallUser(text="it's\n\n5"), Done(text="it's 5\\n"), Wait(seconds=5)]
# by dialect: what else it can say
FURTHER = {
    "ui_tars_v1": OF_UI_TARS,
    "ui_tars_v1_5": OF_UI_TARS,
    "qwen2_5_vl": [Hover(x=7, y=9), Wait(seconds=3), Done(text="42"), Done(status="failure")],
    "qwen3_vl": [Wait(seconds=3), Done(), Done(status="failure")],
    "openai": [Hover(x=7, y=9), Wait(seconds=1), Back(), Forward()],
    "anthropic": [Hover(x=7, y=9), Wait(seconds=30), Click(x=5, y=6, button="middle")],
    "pyautogui": [Hover(x=7, y=9), Wait(seconds=30), Done(), Done(status="failure"),
                  KeyDown(key="Shift"), KeyUp(key="Shift")],
    "agentnet": [Hover(x=7, y=9), Wait(seconds=30), Done()],
}  # fmt: skip
WHEELS = [
    Scroll(x=56, y=64, dy=500),
    Scroll(x=56, y=64, dy=-500),
    Scroll(x=56, y=64, dx=500),
    Scroll(x=56, y=64, dx=-500),
]


def again(dialect: Dialect, action) -> tuple:
    """Written, sent as JSON where it is none yet, and read."""
    space = dialect.space(SCREEN)
    said = dialect.write(action, space)
    actions = dialect.read(said, space)
    if not isinstance(said, str):
        assert dialect.read(json.dumps(said), space) == actions
    return actions


@pytest.mark.parametrize("dialect", EXACT, ids=lambda one: one.name)
def test_what_is_written_is_read(dialect):
    for action in [*POINTING, *OTHERS, *FURTHER[dialect.name], *WHEELS]:
        assert again(dialect, action) == (action,)


@pytest.mark.parametrize("dialect", COARSE, ids=lambda one: one.name)
def test_in_thousandths_points_come_back_within_the_coarser_pixel(dialect):
    for action in [*OTHERS, *FURTHER[dialect.name]]:
        assert again(dialect, action) == (action,)
    for action in POINTING:
        (read,) = again(dialect, action)
        was, now = action.model_dump(), read.model_dump()
        for name in ("x", "y", "to_x", "to_y"):
            assert abs(was.pop(name, 0) - now.pop(name, 0)) <= 2
        assert was == now


POINTS = st.tuples(st.integers(0, 1119), st.integers(0, 671))


@given(POINTS, POINTS, st.sampled_from(EXACT))
def test_every_pixel_survives_every_dialect_of_pixels(start, end, dialect):
    drag = Drag(x=start[0], y=start[1], to_x=end[0], to_y=end[1])
    for action in (Click(x=start[0], y=start[1]), drag):
        assert again(dialect, action) == (action,)


MARKS = ["<tool_call>", "</tool_call>", "<|im_end|>", "<", "\n\n", "')", '")', "Action:", "\\"]
TEXTS = st.text(max_size=300) | st.lists(st.sampled_from([*MARKS, "a", " "])).map("".join)


@given(TEXTS.filter(lambda text: "\r" not in text), st.sampled_from(DIALECTS))
def test_every_text_survives_every_dialect(text, dialect):
    if "\0" in text:
        return
    assert again(dialect, Type(text=text)) == (Type(text=text),)


@pytest.mark.parametrize("dialect", DIALECTS, ids=lambda one: one.name)
def test_what_has_no_word_is_not_written(dialect):
    with pytest.raises(BadAction, match="no word for navigate"):
        dialect.write(Navigate(url="http://x.test/"), dialect.space(SCREEN))


@pytest.mark.parametrize("dialect", DIALECTS, ids=lambda one: one.name)
@pytest.mark.parametrize("px", [8049, 8050, 8191, 8192, 1])
def test_what_scrolls_far_is_read_again(dialect, px):
    for wheel in (Scroll(x=5, y=6, dy=px), Scroll(x=5, y=6, dx=-px)):
        (read,) = [one for one in again(dialect, wheel) if isinstance(one, Scroll)]
        assert (read.dx < 0, read.dy > 0) == (wheel.dx < 0, wheel.dy > 0)
        if not dialect.name.startswith("ui_tars"):
            assert abs(read.dy - wheel.dy) < 100 and abs(read.dx - wheel.dx) < 100


def test_what_cannot_be_said_whole_is_not_written():
    for name, action in {
        "ui_tars_v1": Scroll(x=1, y=1),
        "ui_tars_v1_5": Scroll(x=1, y=1),
        "qwen2_5_vl": Done(status="failure", text="no such page"),
        "qwen3_vl": Done(status="failure", text="no such page"),
    }.items():
        dialect = dialect_named(name)
        with pytest.raises(BadAction, match=f"no word for {action.kind}"):
            dialect.write(action, dialect.space(SCREEN))


LITERALS = st.recursive(
    st.sampled_from([0, 1, -1.5, 1e308, 10**30, True, None, "ctrl", "left", "success", "", "é"]),
    lambda inner: st.lists(inner, max_size=3),
    max_leaves=3,
)
NAMED = ["x", "y", "keys", "key", "button", "status", "answer", "clicks", "presses", "message",
         "seconds", "duration", "content", "start_box", "end_box", "direction"]  # fmt: skip


@given(
    st.sampled_from([*pyautogui._READERS, *ui_tars._READERS]),
    st.lists(LITERALS, max_size=3),
    st.dictionaries(st.sampled_from(NAMED), LITERALS, max_size=3),
    st.sampled_from([one for one in DIALECTS if one.read in (pyautogui.read, ui_tars.read)]),
)
def test_any_call_is_read_or_refused(function, positional, named, dialect):
    arguments = [*map(repr, positional), *(f"{name}={value!r}" for name, value in named.items())]
    try:
        dialect.read(f"{function}({', '.join(arguments)})", dialect.space(SCREEN), (1, 1))
    except BadAction as error:
        assert len(error.message) < 400


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.sampled_from(
                [
                    "action",
                    "coordinate",
                    "text",
                    "keys",
                    "pixels",
                    "type",
                    "x",
                    "y",
                    "path",
                    "input",
                    "arguments",
                    "name",
                    "start_coordinate",
                    "scroll_amount",
                    "scroll_direction",
                    "duration",
                    "actions",
                    "scroll_x",
                    "button",
                    "ms",
                    "time",
                    "status",
                ]
            ),  # fmt: skip
            inner
            | st.sampled_from(
                [
                    "click",
                    "left_click",
                    "scroll",
                    "key",
                    "drag",
                    "wait",
                    "type",
                    "hold_key",
                    "zoom",
                    "left_click_drag",
                    "keypress",
                    "terminate",
                    "down",
                    "left",
                ]
            ),  # fmt: skip
            max_size=6,
        )
    ),
    max_leaves=12,
)


@given(JSON, st.sampled_from(DIALECTS))
def test_any_json_is_read_or_refused(value, dialect):
    space = dialect.space(SCREEN)
    try:
        actions = dialect.read(value, space)
    except BadAction as error:
        assert len(error.message) < 400
        return
    for action in actions:
        assert RECORDED_ACTION_ADAPTER.validate_json(action.model_dump_json()) == action
        if hasattr(action, "x"):
            assert 0 <= action.x < 1120 and 0 <= action.y < 672


@given(st.text(max_size=200), st.sampled_from(DIALECTS))
def test_any_text_is_read_or_refused(text, dialect):
    for said in (text, f"Action: {text}", f"<tool_call>{text}", f"pyautogui.click({text})"):
        try:
            dialect.read(said, dialect.space(SCREEN))
        except BadAction as error:
            assert len(error.message) < 400


HOSTILE = {
    "long": "a" * (MAX_SAID + 1),
    "nested-parentheses": "click" + "(" * 30_000,
    "nested-lists": "pyautogui.click(" + "[" * 90 + "]" * 90 + ")",
    "minuses": "pyautogui.click(x=" + "-" * 20_000 + "1, y=1)",
    "sum": "pyautogui.click(x=" + "1+" * 15_000 + "1, y=1)",
    "attributes": "a" + ".a" * 15_000 + "()",
    "json-nested": "[" * 30_000,
    "json-nested-objects": '{"action":' * 3000,
    "digits": "pyautogui.click(x=" + "9" * 20_000 + ", y=1)",
    "json-digits": '{"action": "left_click", "coordinate": [' + "9" * 20_000 + ", 1]}",
    "float": '{"action": "left_click", "coordinate": [1e999, 1]}',
    "tool-calls": "<tool_call>" * 2900,
    "calls": "pyautogui.press('a')\n" * 1000,
    "presses": "pyautogui.press(['a'] , presses=10**9)",
    "quotes": "click(start_box='" + "'" * 20_000,
    "boxes": "click(start_box='" + "(" * 20_000 + "')",
    "escapes": "type(content='" + "\\" * 30_000,
    "surrogate-escaped": r"pyautogui.write('\ud800')",
    "null": "pyautogui.click(\0)",
    "surrogate": "pyautogui.write('\ud800')",
    "empty": "",
    "code": "__import__('os').system('echo hurt > hurt')",
    "lambda": "pyautogui.write((lambda: 'x')())",
    "format": "pyautogui.write(f'{open}')",
    "star": "pyautogui.click(*[1, 2])",
    "assignment": "x = 1",
    "power": "pyautogui.wait(9**9**9)",
}


@pytest.mark.parametrize("dialect", DIALECTS, ids=lambda one: one.name)
@pytest.mark.parametrize("said", HOSTILE.values(), ids=HOSTILE)
def test_hostile_text_is_refused_in_words(dialect, said, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(BadAction) as caught:
        dialect.read(said, dialect.space(SCREEN))
    assert 0 < len(caught.value.message) < 400
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("dialect", DIALECTS, ids=lambda one: one.name)
def test_an_answer_has_a_most_of_actions(dialect):
    if dialect.name.startswith(("pyautogui", "agentnet")):
        said = "pyautogui.press('a')\n" * (MAX_ACTIONS + 1)
    elif dialect.name.startswith("ui_tars"):
        said = "wait()\n\n" * (MAX_ACTIONS + 1)
    elif dialect.name == "openai":
        said = {"actions": [{"type": "wait"}] * (MAX_ACTIONS + 1)}
    elif dialect.name == "anthropic":
        said = {"action": "key", "text": "a " * (MAX_ACTIONS + 1)}
    else:
        call = '<tool_call>{"arguments": {"action": "wait", "time": 1}}</tool_call>'
        said = call * (MAX_ACTIONS + 1)
    with pytest.raises(BadAction):
        dialect.read(said, dialect.space(SCREEN))


def test_a_dialect_is_found_by_its_name():
    assert [dialect_named(one.name) for one in DIALECTS] == list(DIALECTS)
    with pytest.raises(InvalidRequest, match="morse") as caught:
        dialect_named("morse")
    assert "ui_tars_v1_5" in caught.value.hint
