import pytest
from replay.replay_builders import make_result, make_usage

from agentserve.core.runs import RunSummary
from agentserve.core.sessions import CacheLoss, Usage
from agentserve.replay.compare.engine import EngineRule, EngineTurn, engine_differences, ratios
from agentserve.replay.compare.expectations import OutcomeRule, TextRule, UsageRule
from agentserve.replay.compare.outcome import outcome_differences
from agentserve.replay.compare.prefix import prefix_differences
from agentserve.replay.compare.usage import (
    budget_differences,
    cached_share,
    turn_usage_differences,
)


def shown(differences) -> list[tuple]:
    return [(d.field, d.recorded, d.replayed) for d in differences]


def test_counts_that_follow_from_the_screens_must_be_the_recorded_ones():
    was = make_usage(1)
    other = was.model_copy(
        update={"visual_tokens": 100, "pruned_tokens": 60, "cached_tokens": 0, "freed_tokens": 9}
    )
    assert turn_usage_differences(was, was) == []
    assert shown(turn_usage_differences(was, other)) == [
        ("usage.visual_tokens", 160, 100),
        ("usage.pruned_tokens", 0, 60),
    ]
    assert shown(turn_usage_differences(was, other, UsageRule(counts=("freed_tokens",)))) == [
        ("usage.freed_tokens", 0, 9)
    ]
    accepted = {"visual_tokens": (90, 100), "pruned_tokens": (50,)}
    assert shown(turn_usage_differences(was, other, accepted=accepted)) == [
        ("usage.pruned_tokens", 50, 60)
    ]
    assert [name for name, *_ in shown(turn_usage_differences(was, was, accepted=accepted))] == [
        "usage.visual_tokens",
        "usage.pruned_tokens",
    ], "what was recorded is not among them"
    assert turn_usage_differences(None, other) == [], "an imported step has no counts"


def test_a_turn_keeps_to_its_budget():
    was, now = make_usage(1), make_usage(1, prefilled_tokens=1300)
    assert turn_usage_differences(was, now, UsageRule(max_turn_prefilled=1300)) == []
    (difference,) = turn_usage_differences(was, now, UsageRule(max_turn_prefilled=1000))
    assert shown([difference]) == [("usage.prefilled_tokens", 95, 1300)]
    assert difference.message == "a turn may compute at most 1,000 tokens: 300 too many"
    assert shown(turn_usage_differences(None, now, UsageRule(max_turn_prefilled=1000))) == [
        ("usage.prefilled_tokens", None, 1300)
    ]


def test_all_turns_keep_to_theirs():
    turns = [make_usage(index) for index in range(3)]
    assert cached_share(turns) == (110 + 200) / (290 + 380), "the first turn finds nothing"
    assert cached_share(turns[:1]) is None and cached_share([]) is None
    fits = UsageRule(max_prefilled=3 * 95, min_cached_share=0.46)
    assert budget_differences(turns, turns, fits) == []
    tight = UsageRule(max_prefilled=284, min_cached_share=0.47)
    assert shown(budget_differences([None, *turns[1:]], turns, tight)) == [
        ("usage.prefilled_tokens", 190, 285),
        ("usage.cached_share", round(200 / 380, 4), round(310 / 670, 4)),
    ]
    assert budget_differences(turns[:1], turns[:1], UsageRule(min_cached_share=1)) == []


def prefix(cached: int, stored: int = 400, **update):
    usage = Usage(prompt_tokens=500, cached_tokens=cached, stored_prefix_tokens=stored)
    return prefix_differences(make_result(usage=usage), make_result(usage=usage, **update))


def loss(reason: str) -> CacheLoss:
    return CacheLoss(reason=reason, expected_tokens=400, found_tokens=10)


def test_a_prompt_that_does_not_extend_the_last_one_must_say_so():
    assert prefix(400) == [] and prefix(450) == [] and prefix(0, stored=0) == []
    (difference,) = prefix(10)
    assert shown([difference]) == [("prefix", 10, 10)]
    assert difference.message.startswith("390 of the 400 tokens of the turns before were computed")
    assert prefix(10, move="policy") == []
    assert prefix(10, move="context", loss=loss("prefix_moved")) == []
    assert prefix(10, loss=loss("prefix_moved")), "moved, and not declared"
    assert prefix(10, loss=loss("evicted"))
    assert prefix(10, loss=loss("restarted")) == [] and prefix(10, loss=loss("moved")) == []


def test_the_task_s_own_check_decides():
    good, bad = (RunSummary(end="done", success=success) for success in (True, False))
    assert outcome_differences(good, good) == [] and outcome_differences(bad, bad) == []
    other_end = RunSummary(end="max_turns", success=True)
    assert outcome_differences(good, other_end) == []
    assert shown(outcome_differences(good, bad)) == [("outcome.success", "success", "failure")]
    none = RunSummary(end="error", message="the page crashed")
    (difference,) = outcome_differences(good, none)
    assert shown([difference]) == [("outcome.success", "success", None)]
    assert difference.message == "the page crashed"
    assert outcome_differences(None, bad) == [] and outcome_differences(good, None) == []
    assert outcome_differences(good, bad, OutcomeRule(success=False)) == []


def test_without_a_check_the_end_does():
    done, lost = RunSummary(end="done"), RunSummary(end="max_turns")
    assert outcome_differences(done, done) == []
    assert shown(outcome_differences(done, lost)) == [("outcome.end", "done", "max_turns")]


def test_without_a_check_the_agent_s_answer_does_too_where_it_is_asked_for():
    yes, no = (RunSummary(end="done", message=message) for message in ("Yes", "no"))
    assert outcome_differences(yes, no) == []
    assert shown(outcome_differences(yes, no, answers=TextRule())) == [
        ("outcome.message", "Yes", "no")
    ]
    again = RunSummary(end="done", message="yes")
    assert outcome_differences(yes, again, answers=TextRule(mode="normalised")) == []
    good, other = (
        yes.model_copy(update={"success": True}),
        no.model_copy(update={"success": True}),
    )
    assert outcome_differences(good, other, answers=TextRule()) == [], "the check decides"
    lost = [RunSummary(end="error", message=message) for message in ("a", "b")]
    assert outcome_differences(*lost, answers=TextRule()) == [], "no agent said that"


@pytest.mark.parametrize(
    ("wanted", "value", "same"),
    [
        (True, True, True),
        (True, 1, False),
        (1, True, False),
        (1, 1.0, True),
        (3, 4, False),
        (None, None, True),
        ({"rows": [1, 2]}, {"rows": [1, 2]}, True),
        ("a", "A", False),
        ({"ok": True}, {"ok": 1}, False),
        ([False], [0], False),
        ({"rows": [1, {"n": 2}]}, {"rows": [1.0, {"n": 2.0}]}, True),
        ([1], [1, 1], False),
        ({"a": None}, {}, False),
    ],
)
def test_an_expression_must_give_what_is_expected(wanted, value, same: bool):
    rule = OutcomeRule(expression="rows()", equals=wanted)
    differences = outcome_differences(None, None, rule, value=value)
    assert shown(differences) == ([] if same else [("outcome.expression", wanted, value)])


def test_an_expression_that_fails_is_told():
    rule = OutcomeRule(expression="rows()")
    (difference,) = outcome_differences(None, None, rule, value=True, failure="rows is not defined")
    assert (difference.replayed, difference.message) == (None, "rows is not defined")


ENGINE = EngineTurn(
    tokens=(5, 6, 7),
    texts=("click", " 3", " 4"),
    logprobs=(-0.1, -0.2, -0.3),
    prompt_tokens=90,
    cached_tokens=40,
    times_ms={"prefill": 20.0, "decode": 30.0},
)


def engine(**update) -> EngineTurn:
    return ENGINE.model_copy(update=update)


def test_two_workers_that_do_the_same_do_not_differ():
    assert engine_differences(ENGINE, ENGINE) == []
    slower = engine(times_ms={"prefill": 2000.0})
    assert engine_differences(ENGINE, slower) == []
    near = engine(logprobs=(-0.1, -0.15, -0.3))
    assert engine_differences(ENGINE, near) == []
    assert shown(engine_differences(ENGINE, near, EngineRule(max_logprob_difference=0))) == [
        ("logprobs.1", -0.2, -0.15)
    ]


def test_the_first_other_token_is_named_and_what_is_behind_it_is_not_compared():
    other = engine(
        tokens=(5, 8, 9, 9), texts=("click", " 8", "x", "y"), logprobs=(-0.1, -9, -9, -9)
    )
    (difference,) = engine_differences(ENGINE, other)
    assert shown([difference]) == [("tokens.1", " 3", " 8")]
    assert difference.message == "the outputs are the same for 1 tokens, of 3 and 4"
    shorter = engine(tokens=(5, 6), texts=(), logprobs=(-0.1, -0.2))
    assert shown(engine_differences(ENGINE, shorter)) == [("tokens.2", " 4", None)]
    assert engine_differences(ENGINE, other, EngineRule(tokens=False)) == []


def test_log_probabilities_that_one_side_alone_tells_are_a_difference():
    """They were to be compared, and nothing was."""
    untold = engine(logprobs=())
    (difference,) = engine_differences(ENGINE, untold)
    assert shown([difference]) == [("logprobs", 3, 0)]
    assert difference.message.startswith("the second one told no log-probabilities")
    assert shown(engine_differences(untold, ENGINE)) == [("logprobs", 0, 3)]
    assert engine_differences(untold, untold) == []


def test_cached_tokens_must_be_as_many():
    assert shown(engine_differences(ENGINE, engine(cached_tokens=0))) == [
        ("usage.cached_tokens", 40, 0)
    ]
    assert engine_differences(ENGINE, engine(cached_tokens=0), EngineRule(cached=False)) == []
    assert shown(
        engine_differences(ENGINE, engine(prompt_tokens=91), EngineRule(cached=False))
    ) == [("usage.prompt_tokens", 90, 91)]


def test_times_are_told_as_ratios_of_all_turns():
    now = engine(times_ms={"prefill": 5.0, "queue": 1.0})
    assert ratios([ENGINE, ENGINE], [now, engine()]) == {"prefill": 25 / 40, "decode": 30 / 60}
    assert ratios([engine(times_ms={"queue": 0.0})], [now]) == {}
