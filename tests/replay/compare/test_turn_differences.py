import time

import pytest
from replay.replay_builders import make_result

from agentserve.core.actions import Back, Click, Done, Drag, Key, Navigate, Scroll, Type
from agentserve.core.actions.recorded import Fill, Resize
from agentserve.core.elements import ElementTarget, PageBox, Selector
from agentserve.core.errors import InvalidRequest
from agentserve.core.screens import Size
from agentserve.core.sessions import InvalidAction, Timings, Usage
from agentserve.replay.compare import texts
from agentserve.replay.compare.expectations import AcceptedAction, ActionRule, TextRule
from agentserve.replay.compare.turns import action_differences, turn_differences

EXACT = ActionRule(tolerance_px=0)


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
    assert shown(action_differences(recorded, replayed, EXACT)) == expected


def test_points_may_lie_within_the_tolerance():
    there, near = Click(x=10, y=10), Click(x=13, y=14)
    assert action_differences(there, near, ActionRule(tolerance_px=5)) == []
    assert shown(action_differences(there, near, ActionRule(tolerance_px=4.99))) == [
        ("action.point", [10, 10], [13, 14])
    ]
    far = Drag(x=0, y=0, to_x=10, to_y=0)
    rule = ActionRule(tolerance_px=9)
    assert shown(action_differences(Drag(x=0, y=0, to_x=0, to_y=0), far, rule)) == [
        ("action.to_point", [0, 0], [10, 0])
    ]


def test_without_an_element_half_of_the_smallest_target_is_tolerated():
    assert action_differences(Click(x=50, y=50), Click(x=50, y=62)) == []
    assert action_differences(Click(x=50, y=50), Click(x=50, y=63))


def test_points_in_the_same_element_are_the_same():
    button = ElementTarget(box=PageBox(x=100, y=40, width=200, height=30))
    there = Click(x=110, y=50)
    for point, same in {
        (299, 69): True,
        (100, 40): True,
        (300, 50): False,
        (110, 70): False,
    }.items():
        now = Click(x=point[0], y=point[1])
        assert (action_differences(there, now, EXACT, target=button) == []) is same
    strict = ActionRule(same_element=False, tolerance_px=0)
    assert action_differences(there, Click(x=111, y=50), strict, target=button)
    beside = ElementTarget(box=PageBox(x=0, y=0, width=400, height=10))
    assert action_differences(there, Click(x=111, y=5), EXACT, target=beside), (
        "a box that does not hold the recorded point is not of its element"
    )


@pytest.mark.parametrize("tag", ["body", "html", "canvas", "svg", "iframe", "CANVAS"])
def test_where_it_matters_which_point_is_hit_no_box_makes_points_the_same(tag: str):
    large = ElementTarget(box=PageBox(x=0, y=0, width=100, height=100), tag=tag)
    one, other = Click(x=90, y=90), Click(x=10, y=10)
    assert action_differences(one, other, target=large)
    assert action_differences(one, Click(x=95, y=95), target=large) == []
    assert turn_differences(make_result(action=one), make_result(action=other), target=large)


def test_a_slider_is_hit_at_its_place():
    chain = (Selector(engine="aria", value="Volume", role="slider"),)
    slider = ElementTarget(
        selectors=(chain,), box=PageBox(x=0, y=0, width=100, height=10), tag="input"
    )
    assert action_differences(Click(x=90, y=5), Click(x=10, y=5), target=slider)


def test_a_large_part_of_the_viewport_is_no_element_to_hit_anywhere():
    view = Size(width=1280, height=800)
    part = ElementTarget(box=PageBox(x=0, y=0, width=1280, height=300), tag="div")
    one, other = Click(x=640, y=280), Click(x=100, y=40)
    assert action_differences(one, other, target=part, viewport=view)
    small = ElementTarget(box=PageBox(x=0, y=0, width=1280, height=150), tag="div")
    assert action_differences(Click(x=640, y=140), other, target=small, viewport=view) == []
    accepted = AcceptedAction(action=one, box=part.box)
    far = Click(x=900, y=500)
    assert action_differences(far, other, accepted=[accepted], viewport=view)
    now = make_result(action=other)
    assert turn_differences(make_result(action=one), now, target=part, viewport=view)


def named(name: str, place: int, box: PageBox) -> ElementTarget:
    chains = (
        (Selector(engine="aria", value=name, role="button"),),
        (Selector(engine="xpath", value=f"/html/body/button[{place}]"),),
    )
    return ElementTarget(selectors=chains, box=box, tag="button")


def test_elements_that_both_sides_know_are_told_by_their_selectors():
    left, right = PageBox(x=0, y=0, width=90, height=40), PageBox(x=200, y=0, width=90, height=40)
    save = named("Save", 1, left)
    one, near, far = Click(x=5, y=5), Click(x=80, y=30), Click(x=250, y=5)

    def compared(now: Click, element: ElementTarget | None) -> bool:
        found = action_differences(one, now, target=save, now=(element, None))
        return found == []

    assert compared(far, named("Save", 2, right)), "it has moved"
    assert not compared(near, named("Delete", 1, left)), "another one is in its place"
    assert compared(near, None) and not compared(far, None)


def test_a_drag_ends_on_its_own_element():
    start = ElementTarget(box=PageBox(x=0, y=0, width=50, height=50))
    end = ElementTarget(box=PageBox(x=200, y=0, width=50, height=50))
    was = Drag(x=10, y=10, to_x=210, to_y=10)
    same = Drag(x=40, y=40, to_x=240, to_y=40)
    other = Drag(x=40, y=40, to_x=40, to_y=10)
    assert action_differences(was, same, EXACT, target=start, to_target=end) == []
    assert shown(action_differences(was, other, EXACT, target=start, to_target=end)) == [
        ("action.to_point", [210, 10], [40, 10])
    ]


def test_points_in_one_region_are_the_same():
    rule = ActionRule(tolerance_px=0, regions=(PageBox(x=0, y=0, width=100, height=100),))
    assert action_differences(Click(x=5, y=5), Click(x=99, y=99), rule) == []
    assert action_differences(Click(x=5, y=5), Click(x=100, y=99), rule)


@pytest.mark.parametrize(
    ("rule", "recorded", "replayed", "same"),
    [
        (TextRule(), "Ann", "ann", False),
        (TextRule(mode="normalised"), "Ann  Lee\n", "ann lee", True),
        (TextRule(mode="normalised"), "ﬁne\u00a0day", "fine day", True),
        (TextRule(mode="normalised"), "Ann", "Anna", False),
        (TextRule(mode="regex", pattern=r"[A-Z]\w+-\d{4}"), "", "Order-2931", True),
        (TextRule(mode="regex", pattern=r"\w+"), "x", "two words", False),
    ],
)
def test_texts_are_compared_as_the_rule_says(rule, recorded, replayed, same):
    actions = ActionRule(texts=rule)
    for kind, field in ((Type, "text"), (Fill, "value"), (Navigate, "url"), (Done, "text")):
        differences = action_differences(
            kind(**{field: recorded}), kind(**{field: replayed}), actions
        )
        assert [d.field for d in differences] == ([] if same else [f"action.{field}"])
    said = make_result(action=None, variables={"verdict": recorded})
    now = make_result(action=None, variables={"verdict": replayed})
    assert (turn_differences(said, now, actions) == []) is same


@pytest.mark.parametrize(
    "pattern",
    [r"(a+)+$", r"(?:a|aa)+$", r"(\w*\s*)*\.", r"(a*)*b", r".*.*.*.*.*.*.*.*b", r"\p{L}*" * 80],
)
def test_a_hostile_pattern_ends_soon_and_matches_nothing(pattern: str):
    begun = time.process_time()
    rule = TextRule(mode="regex", pattern=pattern)
    assert not texts.same_text("", "a" * 50_000 + "!", rule)
    assert time.process_time() - begun < 2


@pytest.mark.parametrize(
    "pattern", ["(", "(?P<x>", "[", r"(a)\1", "(?R)?a", r"(\pN{1,999}){1,999}", "\\"]
)
def test_a_pattern_that_is_none_is_named(pattern: str):
    with pytest.raises(InvalidRequest, match="is no pattern that RE2 takes"):
        texts.same_text("a", "a", TextRule(mode="regex", pattern=pattern))


def test_a_text_too_long_to_be_matched_matches_nothing():
    rule = TextRule(mode="regex", pattern="a*")
    assert texts.same_text("", "a" * texts.MAX_MATCHED, rule)
    assert not texts.same_text("", "a" * (texts.MAX_MATCHED + 1), rule)
    assert not texts.same_text("", "\ud800", rule), "half a character is no a"


def test_what_was_accepted_is_no_difference():
    other = AcceptedAction(action=Click(x=300, y=40), box=PageBox(x=290, y=30, width=60, height=20))
    silent = AcceptedAction(invalid="clack")
    was = make_result()
    options = {"rule": EXACT, "accepted": [other, silent]}
    assert turn_differences(was, make_result(action=Click(x=349, y=49)), **options) == []
    assert action_differences(was.action, Click(x=291, y=31), **options) == []
    clack = InvalidAction(text="clack", reason="unknown")
    assert turn_differences(was, make_result(action=None, invalid=clack), **options) == []
    assert shown(turn_differences(was, make_result(action=Click(x=350, y=49)), **options)) == [
        ("action.point", [300, 40], [350, 49])
    ]
    assert turn_differences(was, was, **options), "what was recorded is not among them"


def test_acts_of_people_are_compared_field_by_field():
    was, now = (Resize(size=Size(width=width, height=600)) for width in (800, 801))
    assert shown(action_differences(was, now)) == [
        ("action.size", {"width": 800, "height": 600}, {"width": 801, "height": 600})
    ]


def test_switched_off_nothing_is_compared():
    rule = ActionRule(checked=False)
    assert turn_differences(make_result(), make_result(action=Back()), rule) == []
    assert action_differences(Back(), None, rule) == []


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
