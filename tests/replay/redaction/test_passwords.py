"""Which steps of an import may type a secret."""

from __future__ import annotations

from typing import Any

import pytest

from agentserve.core.actions import Click, Key, Type
from agentserve.core.actions.recorded import Fill, KeyDown, KeyUp, Unsupported, WaitFor
from agentserve.core.elements import ElementTarget, Selector
from agentserve.replay import StepLine
from agentserve.replay.redaction.passwords import (
    keyed_one_by_one,
    typed_in_clear,
    typed_in_pieces,
    typed_passwords,
)
from agentserve.replay.redaction.secrets import Secrets

SECRETS = Secrets({"PASSWORD": "Ab cd"})


def steps_of(*acts: Any, **more: Any) -> list[StepLine]:
    return [StepLine(index=at, url="", performed=act, **more) for at, act in enumerate(acts)]


def by(value: str) -> ElementTarget:
    return ElementTarget(selectors=((Selector(engine="css", value=value),),))


@pytest.mark.parametrize(
    ("more", "found"),
    [
        ({"target": by("#user")}, []),
        ({"target": by("[name=Passwort]")}, [0, 1, 4]),
        ({"target": ElementTarget(text="密码")}, [0, 1, 4]),
        ({"origin": {"selector": "internal:role=textbox[name=/password/i]"}}, [0, 1, 4]),
        ({"origin": {"params": {"selector": "css=.passwd:visible"}}}, [0, 1, 4]),
        ({"origin": [{"selectors": [["pierce/#pwd"]]}, None]}, [0, 1, 4]),
        ({"origin": {"item": {"thought": "Now the password"}}}, []),
    ],
    ids=str,
)
def test_passwords_are_told_by_what_speaks_of_their_element(
    more: dict[str, Any], found: list[int]
) -> None:
    acts = (Fill(value="x"), Type(text="x"), Fill(value="true"), Type(text="{{secret:A}}"))
    steps = steps_of(*acts, WaitFor(value="x"), WaitFor(text="x"), Click(x=1, y=2), None, **more)
    assert typed_passwords(steps) == found
    assert typed_passwords(steps, known=(1, 3, 6)) == sorted({*found, 1})


def test_every_text_in_clear_is_told_also_of_what_has_no_equal() -> None:
    acts = (
        Fill(value="x"), Fill(value=""), Fill(value="false"), Type(text="a{{secret:A}}"),
        Unsupported(what='input {"text": "x"}'), Unsupported(what="pyautogui.write(x)"),
        Unsupported(what="choosing files"), None,
    )  # fmt: skip
    assert typed_in_clear(steps_of(*acts)) == [0, 4, 5]


def keys(text: str) -> list[Any]:
    return [Key(keys=key) for key in text.split()]


def test_single_keys_are_a_text_when_enough_follow_each_other() -> None:
    assert keyed_one_by_one(steps_of(*keys("a Shift+b Backspace Space d"))) == [0, 1, 3, 4]
    for broken in ("a b c", "a b Tab c d", "a b Control+c d e"):
        assert keyed_one_by_one(steps_of(*keys(broken))) == []


@pytest.mark.parametrize(
    ("acts", "found"),
    [
        ([Type(text="xAb cdx")], []),
        ([Type(text="xAb"), Type(text=" cdx")], [0, 1]),
        (keys("Shift+a b Space c d"), [0, 1, 2, 3, 4]),
        ([KeyDown(key="Shift"), KeyDown(key="A"), KeyUp(key="A"), KeyUp(key="Shift"),
          Type(text="b c"), Key(keys="d")], [1, 4, 5]),
        ([Type(text="Ab"), Click(x=1, y=2), Type(text=" cd")], []),
        ([Type(text="Ab"), Type(text=" cx")], []),
        ([Type(text="Ab cd"), Type(text="Ab cd")], []),
    ],
)  # fmt: skip
def test_a_secret_in_pieces_is_found(acts: list[Any], found: list[int]) -> None:
    assert typed_in_pieces(steps_of(*acts), SECRETS) == found
