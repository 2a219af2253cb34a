import pytest
from replay.replay_builders import make_result

from agentserve.core.actions import Back, Click, Done, Drag, Key, Scroll, Type
from agentserve.core.sessions import InvalidAction, Timings, Usage
from agentserve.replay.compare.turns import action_differences, turn_differences


def shown(differences) -> list[tuple]:
    return [(d.field, d.recorded, d.replayed) for d in differences]


@pytest.mark.parametrize(
    "action",
    [Click(x=1, y=2), Type(text="a"), Drag(x=1, y=2, to_x=3, to_y=4), Done(), Back(), None],
    ids=lambda action: action.kind if action else "none",
)
def test_equal_actions_do_not_differ(action):
    assert action_differences(action, action) == []


@pytest.mark.parametrize(
    ("recorded", "replayed", "expected"),
    [
        (Click(x=1, y=2), Click(x=1, y=3), [("action.point", [1, 2], [1, 3])]),
        (Click(x=1, y=2), Click(x=1, y=2, button="right"), [("action.button", "left", "right")]),
        (Type(text="Ok"), Type(text="ok"), [("action.text", "Ok", "ok")]),
        (Key(keys="Enter"), Key(keys="Tab"), [("action.keys", "Enter", "Tab")]),
        (
            Scroll(x=1, y=2, dy=100),
            Scroll(x=9, y=2, dy=-100),
            [("action.point", [1, 2], [9, 2]), ("action.dy", 100, -100)],
        ),
        (
            Drag(x=1, y=2, to_x=3, to_y=4),
            Drag(x=1, y=2, to_x=3, to_y=5),
            [("action.to_point", [3, 4], [3, 5])],
        ),
        (Click(x=1, y=2), Type(text='"'), [("action", "click 1 2", 'type "\\""')]),
        (Click(x=1, y=2), None, [("action", "click 1 2", None)]),
        (None, Back(), [("action", None, "back")]),
        (Done(), Done(status="failure"), [("action.status", "success", "failure")]),
    ],
)
def test_what_differs_is_named_with_both_values(recorded, replayed, expected):
    assert shown(action_differences(recorded, replayed)) == expected


def test_points_may_lie_within_the_tolerance():
    there, near = Click(x=10, y=10), Click(x=13, y=14)
    assert action_differences(there, near, 5.0) == []
    assert shown(action_differences(there, near, 4.99)) == [("action.point", [10, 10], [13, 14])]
    far = Drag(x=0, y=0, to_x=10, to_y=0)
    assert shown(action_differences(Drag(x=0, y=0, to_x=0, to_y=0), far, 9)) == [
        ("action.to_point", [0, 0], [10, 0])
    ]


def test_texts_and_costs_around_the_same_decision_are_no_difference():
    recorded = make_result()
    replayed = make_result(
        text="Another thought.\nclick 56 84",
        variables={"thought": "Another thought.", "action": "click 56 84"},
        usage=Usage(prompt_tokens=5),
        timings=Timings(total_ms=9),
    )
    assert turn_differences(recorded, replayed) == []


def test_invalid_answers_are_compared_by_what_the_model_wrote():
    clack = InvalidAction(text="clack", reason="unknown action")
    reworded = InvalidAction(text="clack", reason="there is no such action")
    cluck = InvalidAction(text="cluck", reason="unknown action")
    invalid = make_result(action=None, invalid=clack)
    assert turn_differences(invalid, make_result(action=None, invalid=reworded)) == []
    assert shown(turn_differences(invalid, make_result(action=None, invalid=cluck))) == [
        ("invalid", "clack", "cluck")
    ]
    assert shown(turn_differences(make_result(), invalid)) == [
        ("invalid", None, "clack"),
        ("action", "click 40 60", None),
    ]


def test_a_program_that_does_not_act_is_compared_by_its_variables():
    yes = make_result(action=None, variables={"verdict": "yes", "why": "a"})
    no = make_result(action=None, variables={"verdict": "no", "sure": "b"})
    assert turn_differences(yes, yes) == []
    assert shown(turn_differences(yes, no)) == [
        ("variables.verdict", "yes", "no"),
        ("variables.why", "a", None),
        ("variables.sure", None, "b"),
    ]
