"""How a run ended, against how it ended in the recording. Pure: the page was asked elsewhere."""

from __future__ import annotations

from pydantic import JsonValue

from agentserve.core.runs import RunSummary
from agentserve.replay.compare.difference import Difference
from agentserve.replay.compare.expectations import OutcomeRule, TextRule
from agentserve.replay.compare.texts import same_text

DEFAULT = OutcomeRule()
_SAID = {"done", "gave_up", "call_user"}
"""Ends whose message is the agent's."""
_SUCCESS = {True: "success", False: "failure", None: None}


def outcome_differences(
    recorded: RunSummary | None,
    replayed: RunSummary | None,
    rule: OutcomeRule = DEFAULT,
    *,
    value: JsonValue = None,
    failure: str = "",
    answers: TextRule | None = None,
) -> list[Difference]:
    """``value`` is what ``rule.expression`` gave in the page, ``failure`` why it gave nothing.

    The task's own check decides; without one, how the run ended does, and by ``answers`` what was
    said at its end (None: that is not compared). A recording that was cut off
    (``recorded`` None) says nothing of either.
    """
    differences: list[Difference] = []
    if rule.success and recorded is not None and replayed is not None:
        was, now = recorded.success, replayed.success
        if was is None and now is None:
            was_told, now_told, field = recorded.end, replayed.end, "outcome.end"
            if answers and was_told == now_told in _SAID:
                differences += _answer_differences(recorded.message, replayed.message, answers)
        else:
            was_told, now_told, field = _SUCCESS[was], _SUCCESS[now], "outcome.success"
        if was_told != now_told:
            differences.append(
                Difference(
                    comparer="outcome",
                    field=field,
                    recorded=was_told,
                    replayed=now_told,
                    message=replayed.message[:2000],
                )
            )
    if rule.expression is not None and (failure or not _equal(value, rule.equals)):
        differences.append(
            Difference(
                comparer="outcome",
                field="outcome.expression",
                recorded=rule.equals,
                replayed=None if failure else value,
                message=failure[:2000] or f"the page should give another value: {_cut(rule)}",
            )
        )
    return differences


def _answer_differences(was: str, now: str, rule: TextRule) -> list[Difference]:
    if same_text(was, now, rule):
        return []
    return [
        Difference(
            comparer="outcome",
            field="outcome.message",
            recorded=was[:2000],
            replayed=now[:2000],
            message="the agent answered otherwise",
        )
    ]


def _equal(value: JsonValue, wanted: JsonValue) -> bool:
    """In JavaScript 1 and 1.0 are one number, but neither is true, at whatever depth."""
    if isinstance(value, bool) or isinstance(wanted, bool):
        return value is wanted
    if isinstance(value, list) and isinstance(wanted, list):
        return len(value) == len(wanted) and all(map(_equal, value, wanted))
    if isinstance(value, dict) and isinstance(wanted, dict):
        return value.keys() == wanted.keys() and all(_equal(value[k], wanted[k]) for k in wanted)
    return value == wanted


def _cut(rule: OutcomeRule) -> str:
    text = rule.expression or ""
    return text if len(text) <= 80 else text[:79] + "…"
