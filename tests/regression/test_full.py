"""What the mode full compares of each step."""

from __future__ import annotations

from typing import Any

from replay.replay_builders import make_result, make_step

from agentserve.core.actions import Click
from agentserve.core.elements import ElementTarget, PageBox, Selector
from agentserve.core.screens import Size
from agentserve.core.sessions import InvalidAction, Usage
from agentserve.regression.full import compare_step
from agentserve.replay import StepLine
from agentserve.replay.compare.expectations import ActionRule, Expectations, UsageRule

VIEW = Size(width=400, height=300)


def line(target: ElementTarget | None = None, **result: Any) -> StepLine:
    step = make_step(0, result=make_result(0, **result))
    return StepLine(**{**step.model_dump(), "screenshot": None, "target": target})


def answered(verdict: str) -> StepLine:
    return line(action=None, model_action=None, variables={"verdict": verdict})


def fields(was: StepLine, now: StepLine, rules: Expectations | None = None) -> list[str]:
    report = compare_step(was, now, rules or Expectations(), VIEW)
    assert report.same == (not report.differences)
    return [each.field for each in report.differences]


def test_a_program_s_answers_are_compared() -> None:
    assert fields(answered("yes"), answered("yes")) == []
    assert fields(answered("yes"), answered("no")) == ["variables.verdict"]
    invalid = line(action=None, invalid=InvalidAction(text="gibberish", reason="r"))
    assert fields(answered("yes"), invalid) == ["invalid"]
    off = Expectations(actions=ActionRule(checked=False))
    assert fields(answered("yes"), answered("no"), off) == []


def test_what_a_person_did_is_compared_by_the_acts() -> None:
    was = line().model_copy(update={"result": None})
    now = was.model_copy(update={"performed": Click(x=200, y=200)})
    assert fields(was, was) == [] and fields(was, now) == ["action.point"]


def test_elements_are_told_apart_by_what_both_runs_know_of_them() -> None:
    def button(name: str) -> ElementTarget:
        chain = (Selector(engine="aria", value=name, role="button"),)
        return ElementTarget(selectors=(chain,), box=PageBox(x=0, y=0, width=90, height=90))

    was = line(button("Save"), action=Click(x=5, y=5))
    near = Click(x=80, y=80)
    assert fields(was, line(button("Save"), action=near)) == []
    assert fields(was, line(button("Delete"), action=near)) == ["action.point"]


def test_budgets_and_the_prefix_hold_and_the_counts_of_other_screens_do_not() -> None:
    was = line()
    usage = Usage(
        prompt_tokens=500,
        cached_tokens=10,
        stored_prefix_tokens=400,
        sent_tokens=7,
        prefilled_tokens=490,
    )
    now = line(usage=usage)
    assert fields(was, now) == ["prefix"]
    rules = Expectations(usage=UsageRule(max_turn_prefilled=400), prefix=False)
    assert fields(was, now, rules) == ["usage.prefilled_tokens"]
