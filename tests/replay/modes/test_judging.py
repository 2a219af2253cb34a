"""What a replayed step is judged by, without a page."""

from __future__ import annotations

from typing import Any

import pytest

from agentserve.core.actions import Click, Drag
from agentserve.core.elements import Chain, ElementTarget, PageBox, Selector
from agentserve.core.runs import NetworkNote, Performed
from agentserve.core.sessions import Outcome
from agentserve.replay import StepLine
from agentserve.replay.compare.expectations import (
    AcceptedAction,
    AcceptedTarget,
    ActionRule,
    Expectations,
    StepExpectation,
)
from agentserve.replay.modes.judging import aim_differences, network_differences
from agentserve.replay.redaction.secrets import Secrets

PLACE: Chain = (Selector(engine="xpath", value="/html/body/button"),)
NAME: Chain = (Selector(engine="aria", value="Save", role="button"),)
TARGET = ElementTarget(
    selectors=(NAME, PLACE), box=PageBox(x=0, y=0, width=400, height=200), text="Save"
)
STEP = StepLine(index=4, url="", performed=Click(x=100, y=100), target=TARGET)


def judged(
    rules: Expectations,
    dx: int = 0,
    *,
    found_by: Chain | None = NAME,
    text: str = "Save",
    step: StepLine = STEP,
    **moved: int,
) -> list[str]:
    action: Any = step.performed
    performed = Performed(
        action=action.model_copy(update={"x": action.x + dx, **moved}),
        outcome=Outcome(status="ok"),
        found_by=found_by,
        found_text=text,
    )
    return [each.field for each in aim_differences(step, performed, rules.at(step.index))]


@pytest.mark.parametrize(
    ("general", "own", "same"),
    [
        ({}, {}, False),
        ({"tolerance_px": 40}, {}, True),
        ({}, {"tolerance_px": 40}, True),
        ({"tolerance_px": 40}, {"tolerance_px": 2}, False),
        ({"checked": False}, {}, True),
        ({}, {"checked": False}, True),
        ({}, {"regions": (PageBox(x=90, y=90, width=60, height=20),)}, True),
        ({}, {"regions": (PageBox(x=90, y=90, width=20, height=20),)}, False),
        ({"same_element": True}, {}, False),
    ],
)
def test_each_step_is_judged_by_its_own_rules(
    general: dict[str, Any], own: dict[str, Any], same: bool
) -> None:
    rules = Expectations(
        actions=ActionRule(**general), steps=(StepExpectation(index=4, actions=ActionRule(**own)),)
    )
    assert judged(rules, 30) == ([] if same else ["action.point"])


def test_an_action_that_is_not_checked_may_miss_its_element() -> None:
    assert judged(Expectations(), found_by=None) == ["action.target"]
    assert judged(Expectations(actions=ActionRule(checked=False)), found_by=None) == []


def accepting(target: AcceptedTarget | None, x: int = 100) -> Expectations:
    one = AcceptedAction(by="browser", action=Click(x=x, y=100), target=target)
    return Expectations(steps=(StepExpectation(index=4, accepted_actions=(one,)),))


def test_another_text_in_the_same_place_is_accepted_as_that_text_alone() -> None:
    save = accepting(AcceptedTarget(text="Keep"))
    assert judged(save, found_by=PLACE, text="Keep") == []
    assert judged(save, found_by=PLACE, text="Delete everything") == ["action.target"]
    assert judged(save, found_by=None) == ["action.target"]
    assert judged(save) == ["action.target"], "the recorded one is back"
    gone = accepting(AcceptedTarget(text=None))
    assert judged(gone, found_by=None) == []
    assert judged(gone, found_by=PLACE, text="Keep") == ["action.target"]


def test_where_an_element_lies_is_accepted_apart_from_what_it_is() -> None:
    moved = accepting(None, x=300)
    assert judged(moved, 200) == []
    assert judged(moved, 0) == ["action.point"], "where it was recorded"
    assert judged(moved, 200, found_by=PLACE, text="Keep") == ["action.target"]
    both = accepting(AcceptedTarget(text="Keep"), x=300)
    assert judged(both, 200, found_by=PLACE, text="Keep") == []
    assert judged(both, 100, found_by=PLACE, text="Keep") == ["action.point"]


def test_what_an_agent_may_do_instead_says_nothing_of_where_an_element_lies() -> None:
    one = AcceptedAction(action=Click(x=300, y=100))
    own = StepExpectation(index=4, accepted_actions=(one,))
    assert judged(Expectations(steps=(own,)), 0) == []


def test_a_drag_s_end_is_judged_too() -> None:
    drag = StepLine(index=4, url="", performed=Drag(x=1, y=1, to_x=50, to_y=50), target=TARGET)
    assert judged(Expectations(), step=drag, to_x=90) == ["action.to_point"]


def test_secrets_are_in_no_difference_of_the_network() -> None:
    note = NetworkNote(
        what="answer", request="GET /?t=hunter%32very", recorded="200", replayed="says hunter2very"
    )
    (difference,) = network_differences([note], Secrets({"PW": "hunter2very"}))
    assert "hunter" not in difference.model_dump_json()
    assert difference.replayed == "says {{secret:PW}}"
