"""What a person did, as actions of a recording."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from agentserve.browser.person.acts import Act, act_of, merged
from agentserve.browser.person.hidden import MOST_NAMES, Hidden
from agentserve.browser.person.journeys import Entry, History, journeys
from agentserve.browser.person.messages import MESSAGE
from agentserve.core.actions import Back, Click, DoubleClick, Key, Navigate, Scroll, Type
from agentserve.core.actions.recorded import Fill, Forward, Reload, Unsupported
from agentserve.core.elements import ElementTarget, Selector

FIELD = ElementTarget(selectors=((Selector(engine="css", value="#a"),),), text="Pass word 1")
OTHER = ElementTarget(selectors=((Selector(engine="css", value="#b"),),))


def message(**fields: Any) -> Any:
    return MESSAGE.validate_python({"target": None, **fields})


def typed(text: str | None, value: str, *, secret: bool = False) -> Any:
    return message(kind="typed", text=text, value=value, secret=secret, target=FIELD)


@pytest.mark.parametrize(
    ("told", "action"),
    [
        (message(kind="click", x=1, y=2, button="left", count=1), Click(x=1, y=2)),
        (message(kind="click", x=1, y=2, button="left", count=2), DoubleClick(x=1, y=2)),
        (message(kind="click", x=1, y=2, button="right", count=2), Click(x=1, y=2, button="right")),
        (
            MESSAGE.validate_python({"kind": "scroll", "x": 1, "y": 2, "dx": 0, "dy": 999_999}),
            Scroll(x=1, y=2, dy=8192),
        ),
        (typed("ab", "xab"), Type(text="ab")),
        (typed(None, "axb"), Fill(value="axb")),
        (typed("a" * 2001, "a" * 2001), Fill(value="a" * 2001)),
        (
            MESSAGE.validate_python({"kind": "key", "keys": "Control+Enter"}),
            Key(keys="Control+Enter"),
        ),
        (MESSAGE.validate_python({"kind": "key", "keys": "/"}), Type(text="/")),
        (
            MESSAGE.validate_python({"kind": "key", "keys": "F12"}),
            Unsupported(what="the keys F12"),
        ),
    ],
)
def test_messages_become_actions(told: Any, action: Any) -> None:
    act = act_of(told, Hidden())
    assert act is not None and act.action == action


@pytest.mark.parametrize(
    "fields",
    [
        {"kind": "eval", "code": "1"},
        {"kind": "click", "x": -1, "y": 2, "button": "left", "count": 1},
        {"kind": "click", "x": 1, "y": 2, "button": "left", "count": 1, "more": 1},
        {"kind": "typed", "text": None, "value": "a" * 100_001, "secret": False},
        {"kind": "key", "keys": "a" * 61},
    ],
)
def test_what_is_no_message_is_refused(fields: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        message(**fields)


def test_a_password_is_never_part_of_an_act() -> None:
    hidden = Hidden()
    first = act_of(typed("geheim", "geheim", secret=True), hidden)
    assert first is not None and first.action == Fill(value="{{secret:PASS_WORD_1}}")
    again = act_of(typed("x", "geheim", secret=True), hidden)
    assert again is not None and again.action == first.action
    other = act_of(typed("x", "anderes", secret=True), hidden)
    assert other is not None and other.action == Fill(value="{{secret:PASS_WORD_1_2}}")
    assert hidden.passing == {"PASS_WORD_1": ("geheim",), "PASS_WORD_1_2": ("anderes",)}
    assert "geheim" not in repr(first)


def test_all_that_was_in_a_password_field_is_kept_by_its_name() -> None:
    """Also what was typed over before anything else was done, and a first try."""
    hidden = Hidden({"GIVEN": "known"})
    for value in ("hunter2!", "hunter2!x", "hunter2!"):
        act_of(typed(None, value, secret=True), hidden)
    assert (hidden.lasting, hidden.passing) == ({}, {"PASS_WORD_1": ("hunter2!", "hunter2!x")})
    hidden.left("PASS_WORD_1")
    told = {**dict(typed(None, "hunter2!xy", secret=True)), "passing": ["hunter2!xz"]}
    act = act_of(message(**told), hidden)
    assert act is not None and act.secret == "PASS_WORD_1"
    hidden.left(act.secret)
    assert hidden.lasting == {"PASS_WORD_1": ("hunter2!", "hunter2!xy")}
    assert hidden.passing == {"PASS_WORD_1": ("hunter2!x", "hunter2!xz")}
    assert hidden.names == ("PASS_WORD_1",)


def test_a_secret_that_was_given_keeps_its_name() -> None:
    hidden = Hidden({"GIVEN": "known"})
    act = act_of(typed(None, "known", secret=True), hidden)
    assert act is not None and act.action == Fill(value="{{secret:GIVEN}}")
    hidden.left("GIVEN")
    assert (hidden.lasting, hidden.passing, hidden.names) == ({}, {}, ())


def test_an_emptied_password_field_needs_no_secret() -> None:
    hidden = Hidden()
    act = act_of(typed(None, "", secret=True), hidden)
    assert act is not None and (act.action, act.secret) == (Fill(value=""), "")
    held = message(kind="held", value=None, passing=["tried"])
    assert act_of(held, hidden) is None and hidden.passing == {"PASSWORD": ("tried",)}


def test_what_a_browser_filled_in_is_kept_as_well() -> None:
    hidden = Hidden()
    assert act_of(message(kind="held", value="filled in", passing=[], target=FIELD), hidden) is None
    assert hidden.lasting == {"PASS_WORD_1": ("filled in",)}


def test_passwords_without_end_share_a_name() -> None:
    hidden = Hidden()
    for number in range(MOST_NAMES + 5):
        act_of(typed(None, f"{number:03}", secret=True), hidden)
    assert len(hidden.names) == MOST_NAMES


def writing(action: Any, target: ElementTarget = FIELD) -> Act:
    return Act(action, target, typing=True)


@pytest.mark.parametrize(
    ("before", "after", "both"),
    [
        (writing(Type(text="a")), writing(Type(text="b")), Type(text="ab")),
        (writing(Type(text="a")), writing(Fill(value="xa")), Fill(value="xa")),
        (writing(Fill(value="xa")), writing(Type(text="b")), Fill(value="xab")),
        (writing(Type(text="a")), writing(Type(text="b"), OTHER), None),
        (writing(Type(text="a" * 2000)), writing(Type(text="b")), None),
        (Act(Fill(value="r"), FIELD), Act(Fill(value="g"), FIELD), None),
        (Act(Click(x=5, y=5)), Act(DoubleClick(x=6, y=5)), DoubleClick(x=6, y=5)),
        (Act(Click(x=5, y=5)), Act(DoubleClick(x=60, y=5)), None),
        (Act(Click(x=5, y=5)), Act(Click(x=5, y=5)), None),
    ],
)
def test_what_belongs_together_is_one_act(before: Act, after: Act, both: Any) -> None:
    act = merged(before, after)
    assert (act and act.action) == both


def history(ids: tuple[int, ...], index: int, transition: str = "link") -> History:
    """Of which the shown entry came about by the transition, the others by links."""
    entries = [Entry(id, f"http://a/{id}", "link") for id in ids]
    entries[index] = Entry(ids[index], f"http://a/{ids[index]}", transition)
    return History(tuple(entries), index)


TWO_TYPED = History(
    (Entry(1, "http://a/1", "link"), *(Entry(n, f"http://a/{n}", "typed") for n in (2, 3))), 2
)
GOES_3, GOES_4 = Navigate(url="http://a/3"), Navigate(url="http://a/4")


@pytest.mark.parametrize(
    ("before", "after", "acts"),
    [
        (history((1, 2), 1), history((1, 2), 0), [Back()]),
        (history((1, 2), 0), history((1, 2), 1), [Forward()]),
        (history((1, 2, 3), 2), history((1, 2, 3), 0), [Back(), Back()]),
        (history((1, 2, 3), 0), history((1, 2, 3), 2), [Forward(), Forward()]),
        (history((1, 2), 1), history((1, 2, 3), 2), []),
        (history((1, 2), 1), history((1, 2, 3), 2, "typed"), [GOES_3]),
        (history((1, 2, 3), 0), history((1, 4), 1, "typed"), [GOES_4]),
        (history((1, 2, 3), 2), history((2, 3, 4), 2, "typed"), [GOES_4]),  # a long history
        (history((1,), 0), TWO_TYPED, [Navigate(url="http://a/2"), GOES_3]),
        (history((1, 2), 1), history((1, 2), 1, "reload"), [Reload()]),
        (history((1, 2), 1), history((1, 2), 1), []),
    ],
)
def test_the_history_tells_what_a_person_did(before: Any, after: Any, acts: Any) -> None:
    assert journeys(before, after) == acts
