import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from replay.replay_builders import make_png, make_result, make_step

from agentserve.core.actions import Click
from agentserve.core.elements import ElementTarget, PageBox
from agentserve.core.errors import InvalidRequest, RecordingError
from agentserve.core.screens import Size
from agentserve.core.sessions import CacheLoss, InvalidAction, Usage
from agentserve.regression.browsing import compare_aria, compare_screens
from agentserve.replay.bundle.folder import FolderEntries
from agentserve.replay.bundle.format import EXPECT, META, StepLine
from agentserve.replay.compare.accepting import accept, acceptable, accepted_files, left_of
from agentserve.replay.compare.difference import Difference
from agentserve.replay.compare.expectations import (
    MAX_ACCEPTED,
    AcceptedTarget,
    ActionRule,
    Expectations,
    ScreenRule,
    StepExpectation,
    UsageRule,
    expectations_json,
    load_expectations,
    parse_expectations,
    save_expectations,
)
from agentserve.replay.compare.steps import Compared, compare_turn
from agentserve.replay.results import Replayed, ReplayReport, Side, StepReport, Totals

BOX = PageBox(x=1, y=2, width=30, height=40)


def make_line(index: int = 0, **update) -> StepLine:
    step = make_step(index, **update)
    return StepLine(**{**step.model_dump(), "screenshot": None, "target": update.get("target")})


def make_report(*steps: StepReport, differences: tuple[Difference, ...] = ()) -> ReplayReport:
    different = sum(not step.same for step in steps)
    return ReplayReport(
        recording="r",
        name="r",
        mode="model",
        program="navigator",
        task="t",
        complete=True,
        steps=list(steps),
        differences=list(differences),
        totals=Totals(
            recorded_steps=len(steps),
            replayed_steps=len(steps),
            same=len(steps) - different,
            different=different,
            recorded_usage=Usage(),
            replayed_usage=Usage(),
        ),
        same=not different and not differences,
    )


def make_step_report(index: int, replayed: Side, *differences: Difference) -> StepReport:
    return StepReport(
        index=index,
        recorded=Side(),
        replayed=replayed,
        same=not differences,
        differences=list(differences),
    )


def test_a_step_s_fields_replace_the_general_ones_and_no_others():
    expectations = Expectations(
        actions=ActionRule(tolerance_px=3, same_element=False),
        screens=ScreenRule(threshold=0.3),
        prefix=False,
        steps=(
            StepExpectation(index=2, actions=ActionRule(tolerance_px=0), prefix=True),
            StepExpectation(index=5, screens=ScreenRule(threshold=0.1), aria=False),
        ),
    )
    assert expectations.at(0).actions == ActionRule(tolerance_px=3, same_element=False)
    second, fifth = expectations.at(2), expectations.at(5)
    assert second.actions == ActionRule(tolerance_px=0, same_element=False)
    assert second.screens.threshold == 0.3 and second.prefix and second.aria
    assert fifth.screens.threshold == 0.1, "a default that is said is said"
    assert fifth.actions.tolerance_px == 3 and not fifth.prefix and not fifth.aria


def test_the_schema_tells_every_field():
    """Editors and other tools read expect.json by it."""
    schema = Expectations.model_json_schema()
    assert schema["additionalProperties"] is False
    assert set(schema["properties"]) == set(Expectations.model_fields)
    assert {"ActionRule", "ScreenRule", "StepExpectation", "Click", "Fill"} <= set(schema["$defs"])


def test_only_what_was_said_is_stored_and_is_read_again(tmp_path: Path):
    assert json.loads(expectations_json(Expectations())) == {"schema_version": 1}
    expectations = Expectations(
        screens=ScreenRule(ignore=(BOX,)),
        steps=(StepExpectation(index=1, actions=ActionRule(tolerance_px=12.0)),),
    )
    (tmp_path / META).touch()
    save_expectations(tmp_path, expectations)
    text = (tmp_path / EXPECT).read_text()
    assert text.endswith("}\n") and text.count("\n") > 10
    assert json.loads(text) == {
        "schema_version": 1,
        "screens": {"ignore": [{"x": 1.0, "y": 2.0, "width": 30.0, "height": 40.0}]},
        "steps": [{"index": 1, "actions": {"tolerance_px": 12.0}}],
    }
    assert load_expectations(FolderEntries(tmp_path)) == expectations
    save_expectations(tmp_path, load_expectations(FolderEntries(tmp_path)))
    assert (tmp_path / EXPECT).read_text() == text


def test_a_recording_without_expectations_has_the_defaults(tmp_path: Path):
    assert load_expectations(FolderEntries(tmp_path)) == Expectations()


BAD = {
    "no JSON": b"{",
    "a list": b"[]",
    "an unknown field": b'{"tolerance": 3}',
    "an unknown field of a rule": b'{"actions": {"tolerance": 3}}',
    "another version": b'{"schema_version": 2}',
    "a number as text": b'{"actions": {"tolerance_px": "3"}}',
    "an endless number": b'{"actions": {"tolerance_px": Infinity}}',
    "a share over 1": b'{"screens": {"max_share": 1.5}}',
    "a pattern without its mode": b'{"actions": {"texts": {"pattern": "a"}}}',
    "a mode without a pattern": b'{"actions": {"texts": {"mode": "regex"}}}',
    "a long pattern": b'{"actions": {"texts": {"mode": "regex", "pattern": "%s"}}}' % (b"a" * 501),
    "steps out of order": b'{"steps": [{"index": 2}, {"index": 1}]}',
    "a step twice": b'{"steps": [{"index": 1}, {"index": 1}]}',
    "a step that cannot be": b'{"steps": [{"index": -1}]}',
    "a path as a picture": b'{"steps": [{"index": 0, "accepted_screens": ["../../etc/passwd"]}]}',
    "an unknown count": b'{"usage": {"counts": ["cached_tokens"]}}',
    "deep": b'{"outcome": {"equals": ' + b"[" * 5000 + b"]" * 5000 + b"}}",
    "many regions": b'{"screens": {"ignore": [%s]}}'
    % b",".join([b'{"x":0,"y":0,"width":1,"height":1}'] * 300),
}


@pytest.mark.parametrize("kind", BAD)
def test_what_does_not_fit_is_refused_by_name(kind: str, tmp_path: Path):
    (tmp_path / EXPECT).write_bytes(BAD[kind])
    with pytest.raises(RecordingError, match=f"{tmp_path.name}: {EXPECT}: ") as no:
        load_expectations(FolderEntries(tmp_path))
    assert no.value.hint.startswith("correct it; without expect.json what was recorded is expected")


def test_a_link_is_refused(tmp_path: Path):
    (tmp_path / "other").write_bytes(b"{}")
    (tmp_path / EXPECT).symlink_to(tmp_path / "other")
    with pytest.raises(RecordingError, match=f"{EXPECT} cannot be opened"):
        load_expectations(FolderEntries(tmp_path))
    (tmp_path / EXPECT).unlink()
    (tmp_path / EXPECT).symlink_to(tmp_path / "nowhere")
    with pytest.raises(RecordingError):
        load_expectations(FolderEntries(tmp_path))


ACTION = Difference(comparer="action", field="action")
SCREEN = Difference(comparer="screen", field="screen")


def test_accepting_a_step_puts_it_in_the_recorded_one_s_place_and_leaves_the_others():
    """An accepted decision is found the same by the next replay, and only in its step."""
    now = make_result(action=Click(x=300, y=300))
    side = Side(action=now.action, target=ElementTarget(box=BOX), usage=Usage())
    report = make_report(make_step_report(0, side, ACTION), make_step_report(1, side, ACTION))
    before = Expectations(steps=(StepExpectation(index=1, prefix=False),))
    after = accept(before, report, [0])
    again = parse_expectations(expectations_json(after), "r")
    assert again == after
    assert [step.index for step in after.steps] == [0, 1]
    assert after.steps[1] == before.steps[0] and before.steps[0].accepted_actions == ()
    assert after.steps[0].accepted_actions[0].box == BOX
    for expectations, same in ((before, False), (again, True)):
        assert (compare_turn(make_line(0), now, expectations).differences == []) is same
    assert compare_turn(make_line(1), now, again).differences
    assert accept(after, report, [0]) == after, "once is enough"
    assert compare_turn(make_line(0), make_result(), before).differences == []
    assert compare_turn(make_line(0), make_result(), again).differences, "it was replaced"


def test_with_also_what_passed_until_now_still_does():
    was, now = make_result(), make_result(action=Click(x=300, y=300))
    count = Difference(comparer="usage", field="usage.visual_tokens", recorded=80, replayed=60)
    step = make_step_report(
        0,
        Side(action=now.action, usage=Usage(), screenshot="b" * 64, aria="d" * 64),
        ACTION,
        SCREEN,
        Difference(comparer="aria", field="aria"),
        count,
    )
    recorded = Side(action=was.action, screenshot="a" * 64, aria="c" * 64)
    report = make_report(step.model_copy(update={"recorded": recorded}))
    own = accept(Expectations(), report, also=True).own(0)
    assert own.accepted_screens == ("a" * 64, "b" * 64)
    assert own.accepted_aria == ("c" * 64, "d" * 64)
    assert own.accepted_counts == {"visual_tokens": (80, 60)}
    assert [one.action for one in own.accepted_actions] == [was.action, now.action]
    other = report.steps[0].replayed.model_copy(update={"screenshot": "e" * 64})
    again = make_report(step.model_copy(update={"recorded": recorded, "replayed": other}))
    assert accept(Expectations(steps=(own,)), again).own(0).accepted_screens == ("e" * 64,)


def test_accepting_all_takes_screens_counts_prefixes_and_budgets():
    sha, aria = "a" * 64, "b" * 64
    invalid = Side(invalid=InvalidAction(text="clack", reason="?"), screenshot=sha, aria=aria)
    count = Difference(comparer="usage", field="usage.visual_tokens", recorded=80, replayed=60)
    turn = Difference(comparer="usage", field="usage.prefilled_tokens", recorded=5, replayed=900)
    report = make_report(
        make_step_report(0, Side()),
        make_step_report(
            3, invalid, ACTION, SCREEN, Difference(comparer="aria", field="aria"), count, turn
        ),
        make_step_report(4, Side(), Difference(comparer="prefix", field="prefix", replayed=1)),
        make_step_report(5, Side(), Difference(comparer="network", field="network.body")),
        differences=(
            Difference(comparer="usage", field="usage.prefilled_tokens", replayed=4000),
            Difference(comparer="usage", field="usage.cached_share", replayed=0.51237),
            Difference(comparer="outcome", field="outcome.success", replayed="failure"),
        ),
    )
    assert acceptable(report)
    before = Expectations(usage=UsageRule(max_turn_prefilled=100, min_cached_share=0.9))
    after = accept(before, report)
    third, fourth = after.steps
    assert third.accepted_actions[0].invalid == "clack" and third.accepted_actions[0].action is None
    assert (third.accepted_screens, third.accepted_aria) == ((sha,), (aria,))
    assert third.accepted_counts == {"visual_tokens": (60,)}
    assert (
        after.at(3).usage.max_turn_prefilled == 900 and after.at(4).usage.max_turn_prefilled == 100
    )
    assert fourth.prefix is False
    assert after.usage == UsageRule(
        max_turn_prefilled=100, max_prefilled=4000, min_cached_share=0.512
    )
    assert parse_expectations(expectations_json(after), "r") == after
    one = accept(before, report, [3])
    assert one.usage == before.usage and [step.index for step in one.steps] == [3]

    replayed = Replayed(report, recording=None, pictures={sha: b"x", "c" * 64: b"y"}, arias={})
    assert accepted_files(after, replayed) == ({sha: b"x"}, {})


def test_what_is_left_counts_what_was_not_compared_as_neither():
    side = Side(action=Click(x=300, y=300))
    rebuilt = make_step_report(1, Side()).model_copy(update={"compared": False})
    report = make_report(make_step_report(0, side, ACTION), rebuilt)
    after = accept(Expectations(), report)
    left = left_of(report, Expectations(), after)
    assert left.same and left.steps[0].differences == []
    totals = left.totals
    assert (totals.same, totals.different, totals.not_compared) == (1, 0, 1)
    none = make_report(rebuilt)
    usage = none.model_copy(
        update={"differences": [Difference(comparer="usage", field="usage.cached_share",
                                           replayed=0.5)]}
    )  # fmt: skip
    assert not left_of(usage, Expectations(), accept(Expectations(), usage)).same


def test_what_cannot_be_accepted_changes_nothing():
    report = make_report(
        make_step_report(0, Side(), Difference(comparer="network", field="network.body")),
        differences=(Difference(comparer="outcome", field="outcome.success"),),
    )
    assert not acceptable(report)
    assert accept(Expectations(), report) == Expectations()
    assert expectations_json(accept(Expectations(), report)) == expectations_json(Expectations())


def test_a_step_that_was_not_replayed_cannot_be_accepted():
    report = make_report(make_step_report(0, Side(), ACTION))
    with pytest.raises(InvalidRequest, match="no step 7"):
        accept(Expectations(), report, [0, 7])


def test_alternatives_have_an_end():
    expectations = Expectations()
    for count in range(MAX_ACCEPTED):
        side = Side(action=Click(x=count, y=0))
        report = make_report(make_step_report(0, side, ACTION))
        expectations = accept(expectations, report, also=count > 0)
    side = Side(action=Click(x=999, y=0))
    with pytest.raises(InvalidRequest, match="64 alternatives already"):
        accept(expectations, make_report(make_step_report(0, side, ACTION)), also=True)


def test_an_action_is_accepted_in_the_mode_that_found_it_alone():
    """A button has moved: an agent on the page of today clicks it there, one that is shown the
    screen of then where it was."""
    there = make_report(make_step_report(0, Side(action=Click(x=300, y=300)), ACTION))
    expectations = Expectations()
    for mode in ("full", "browser"):
        expectations = accept(expectations, there.model_copy(update={"mode": mode}))
    own = parse_expectations(expectations_json(expectations), "r").own(0)
    assert [one.by for one in own.accepted_actions] == ["full", "browser"]
    assert own.accepted_by("model") == ()
    assert compare_turn(make_line(0), make_result(), expectations).differences == []
    now = make_result(action=Click(x=300, y=300))
    assert compare_turn(make_line(0), now, expectations).differences
    expectations = accept(expectations, there)
    assert compare_turn(make_line(0), now, expectations).differences == []
    assert len(expectations.own(0).accepted_by("full")) == 1


def test_a_turn_is_compared_in_all_that_it_is():
    usage = Usage(prompt_tokens=500, cached_tokens=10, stored_prefix_tokens=400, sent_tokens=40)
    recorded = make_result(usage=usage.model_copy(update={"cached_tokens": 400}))
    worse = usage.model_copy(update={"sent_tokens": 20})
    now = make_result(action=Click(x=1, y=1), usage=worse)
    found = compare_turn(make_line(result=recorded), now)
    assert [(d.comparer, d.field) for d in found.differences] == [
        ("action", "action.point"),
        ("usage", "usage.sent_tokens"),
        ("prefix", "prefix"),
    ]
    off = Expectations(actions=ActionRule(checked=False), usage=UsageRule(counts=()), prefix=False)
    assert compare_turn(make_line(result=recorded), now, off) == Compared([], [])


def test_a_rebuilt_turn_is_compared_with_a_rebuilt_one_alone():
    rebuilt = make_result(action=Click(x=1, y=1), rebuilt=True)
    found = compare_turn(make_line(), rebuilt)
    assert found.differences == [] and not found.decided
    assert (
        "turn 0 was answered on the KV cache as it was, now from the live tokens" in found.notes[0]
    )
    both = compare_turn(make_line(result=make_result(rebuilt=True)), rebuilt)
    assert [d.field for d in both.differences] == ["action.point"] and both.notes == []
    assert both.decided


@pytest.mark.parametrize("text", [None, "Save"])
def test_what_is_found_instead_of_an_element_is_accepted_with_its_text(text: str | None):
    found = Difference(comparer="action", field="action.target", recorded="Ok", replayed=text)
    report = make_report(make_step_report(0, Side(action=Click(x=1, y=1)), found))
    accepted = accept(Expectations(), report)
    again = parse_expectations(expectations_json(accepted), "it")
    (action,) = again.own(0).accepted_actions
    assert action.target == AcceptedTarget(text=text)
    moved = make_report(make_step_report(0, Side(action=Click(x=1, y=1)), ACTION))
    (action,) = accept(Expectations(), moved).own(0).accepted_actions
    assert action.target is None


def test_a_worker_that_was_restarted_is_a_note_and_no_broken_prefix():
    loss = CacheLoss(reason="restarted", expected_tokens=400, found_tokens=0)
    usage = Usage(prompt_tokens=500, cached_tokens=0, stored_prefix_tokens=400)
    recorded = make_result(usage=usage.model_copy(update={"cached_tokens": 400}))
    found = compare_turn(make_line(result=recorded), make_result(usage=usage, loss=loss))
    assert found.differences == []
    assert found.notes == ["turn 0 computed 400 tokens again: the session's worker was restarted"]


def test_a_page_is_compared_in_screen_and_structure():
    one, other = make_png(0), make_png(200)
    texts = {"b" * 64: "- text: b\n"}
    recording: Any = SimpleNamespace(
        steps=(),
        meta=SimpleNamespace(viewport=Size(width=224, height=280)),
        screenshot={"a" * 64: other}.__getitem__,
        aria=texts.__getitem__,
    )

    def fields(own: StepExpectation, now: tuple[bytes, str] = (other, "- text: b\n")) -> list[str]:
        rules, step = Expectations(steps=(own,)), make_line()
        found = compare_screens(recording, rules, step, one, now[0])
        found += compare_aria(recording, rules, step, "- text: a\n", now[1])
        return [difference.field for difference in found]

    own = StepExpectation(index=0)
    assert fields(own) == ["screen", "aria"]
    assert fields(own, (one, "- text: a\n")) == []
    assert fields(own.model_copy(update={"aria": False})) == ["screen"]
    assert fields(own.model_copy(update={"accepted_screens": ("a" * 64,)})) == ["aria"]
    assert fields(own.model_copy(update={"accepted_aria": ("b" * 64,)})) == ["screen"]
