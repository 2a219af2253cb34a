"""``--update``: what a replay found becomes what the next one may find. Pure."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from typing import Any

from agentserve.core.errors import InvalidRequest
from agentserve.replay.compare.difference import Difference
from agentserve.replay.compare.expectations import (
    MAX_ACCEPTED,
    AcceptedAction,
    AcceptedBy,
    AcceptedTarget,
    Expectations,
    StepExpectation,
)
from agentserve.replay.compare.turns import element_box
from agentserve.replay.results import Mode, Replayed, ReplayReport, Side, StepReport, counts_of

ACCEPTABLE = frozenset({"action", "screen", "aria", "usage", "prefix"})
"""Comparers whose differences can be accepted. An outcome is to be reached, the network and the
tokens of two workers are to be the same: who wants otherwise says so in expect.json."""


_FIELDS = {
    "action": ("accepted_actions",),
    "screen": ("accepted_screens",),
    "aria": ("accepted_aria",),
    "usage": ("accepted_counts", "usage"),
    "prefix": ("prefix",),
}
"""Where a step's expectations hold what was accepted of a comparer."""


def acceptable(report: ReplayReport) -> bool:
    """Whether ``accept`` would take anything of it."""
    return any(difference.comparer in ACCEPTABLE for difference in all_differences(report))


def all_differences(report: ReplayReport) -> list[Difference]:
    """Those of the steps, then those of the whole."""
    return [d for step in report.steps for d in step.differences] + list(report.differences)


def accept(
    expectations: Expectations,
    report: ReplayReport,
    steps: Collection[int] | None = None,
    *,
    also: bool = False,
) -> Expectations:
    """The expectations with what a replay found in them.

    Of ``steps``, by their indices, the actions, screens, snapshots and counts that differ take the
    place of what was recorded or accepted before, which passes no more; with ``also`` it still
    does. A turn's budget grows to what it took, and a broken prefix is expected to break. None: of
    all steps, and the budgets of the whole as well. Screens and snapshots are named by their hash:
    ``accepted_files`` gives those that the bundle must hold for it.

    Raises InvalidRequest for a step that the report has not, or one with more alternatives than a
    file may hold.
    """
    reports = {step.index: step for step in report.steps}
    if unknown := sorted(set(steps or ()) - set(reports)):
        raise InvalidRequest(
            f"the replay has no step {unknown[0]}", hint=f"its steps are 0 to {len(reports) - 1}"
        )
    own = {step.index: step for step in expectations.steps}
    for index in reports if steps is None else steps:
        changed = _step(expectations.own(index), reports[index], report.mode, also)
        if changed.model_fields_set - {"index"}:
            own[index] = changed
    update: dict[str, Any] = {}
    if own:
        update["steps"] = tuple(own[index] for index in sorted(own))
    if steps is None and (budget := _budget(report.differences)):
        update["usage"] = expectations.usage.model_copy(update=budget)
    return expectations.model_copy(update=update)


def left_of(report: ReplayReport, used: Expectations, now: Expectations) -> ReplayReport:
    """What still differs of a report when ``now`` holds and not ``used``, by which it was made: the
    same report without what was accepted in between, which a note counts."""
    steps = [_step_left(step, used.own(step.index), now.own(step.index)) for step in report.steps]
    differences = [
        d for d in report.differences if d.comparer != "usage" or used.usage == now.usage
    ]
    counts = counts_of(steps)
    totals = report.totals.model_copy(update=counts)
    whole = totals.recorded_steps == totals.replayed_steps > totals.not_compared
    update = {
        "steps": steps,
        "differences": differences,
        "totals": totals,
        "same": report.error is None and whole and not counts["different"] and not differences,
    }
    left = report.model_copy(update=update)
    accepted = Counter(d.comparer for d in all_differences(report))
    accepted.subtract(d.comparer for d in all_differences(left))
    told = ", ".join(f"{count} {name}" for name, count in accepted.items() if count)
    if not told:
        return report
    return left.model_copy(update={"notes": [*report.notes, f"accepted from now on: {told}"]})


def accepted_files(
    expectations: Expectations, replayed: Replayed
) -> tuple[dict[str, bytes], dict[str, bytes]]:
    """Pictures and aria snapshots of the replay that ``expectations`` name, by their SHA-256."""
    screens, arias = accepted_names(expectations)
    return (
        {sha: data for sha, data in replayed.pictures.items() if sha in screens},
        {sha: data for sha, data in replayed.arias.items() if sha in arias},
    )


def accepted_names(expectations: Expectations) -> tuple[set[str], set[str]]:
    """SHA-256 of the pictures and of the aria snapshots that ``expectations`` name."""
    return (
        {sha for step in expectations.steps for sha in step.accepted_screens},
        {sha for step in expectations.steps for sha in step.accepted_aria},
    )


def _step_left(step: StepReport, used: StepExpectation, now: StepExpectation) -> StepReport:
    def accepted(difference: Difference) -> bool:
        fields = _FIELDS.get(difference.comparer, ())
        return any(getattr(used, name) != getattr(now, name) for name in fields)

    left = [difference for difference in step.differences if not accepted(difference)]
    return step.model_copy(update={"differences": left, "same": not left})


def _step(own: StepExpectation, report: StepReport, mode: Mode, also: bool) -> StepExpectation:
    update: dict[str, Any] = {}
    comparers = {difference.comparer for difference in report.differences}
    recorded, replayed = report.recorded, report.replayed
    if "action" in comparers:
        assert mode != "engine"  # which compares tokens, not actions
        who: AcceptedBy = mode
        others = tuple(one for one in own.accepted_actions if one.by != who)
        action = _action(replayed, who, **_found(report.differences))
        before = (own.accepted_by(who) or (_action(recorded, who),)) if also else ()
        update["accepted_actions"] = _added((*others, *before), action, report)
    if "screen" in comparers and replayed.screenshot is not None:
        before = (own.accepted_screens or _known(recorded.screenshot)) if also else ()
        update["accepted_screens"] = _added(before, replayed.screenshot, report)
    if "aria" in comparers and replayed.aria is not None:
        before = (own.accepted_aria or _known(recorded.aria)) if also else ()
        update["accepted_aria"] = _added(before, replayed.aria, report)
    if "prefix" in comparers:
        update["prefix"] = False
    usage = _usage(own, [d for d in report.differences if d.comparer == "usage"], report, also)
    return own.model_copy(update=update | usage)


def _action(side: Side, who: AcceptedBy, **target: AcceptedTarget) -> AcceptedAction:
    return AcceptedAction(
        by=who,
        action=side.action,
        box=element_box(side.target),
        to_box=element_box(side.to_target),
        invalid=side.invalid and side.invalid.text,
        variables=side.variables if side.action is None else {},
        **target,
    )


def _known(sha256: str | None) -> tuple[str, ...]:
    return () if sha256 is None else (sha256,)


def _found(differences: Iterable[Difference]) -> dict[str, AcceptedTarget]:
    """What was found instead of the action's element: only that is accepted, and no other text."""
    for each in differences:
        if each.field == "action.target":
            assert each.replayed is None or isinstance(each.replayed, str)
            return {"target": AcceptedTarget(text=each.replayed)}
    return {}


def _usage(
    own: StepExpectation, differences: Iterable[Difference], report: StepReport, also: bool
) -> dict[str, Any]:
    counts = dict(own.accepted_counts)
    update: dict[str, Any] = {}
    for difference in differences:
        name, value = difference.field.removeprefix("usage."), difference.replayed
        assert isinstance(value, int)  # a turn's usage differs in counts alone
        if name == "prefilled_tokens":
            update["usage"] = own.usage.model_copy(update={"max_turn_prefilled": value})
        else:
            was = () if difference.recorded is None else (difference.recorded,)
            before = (counts.get(name) or was) if also else ()
            counts[name] = _added(before, value, report)
            update["accepted_counts"] = counts
    return update


def _budget(differences: Iterable[Difference]) -> dict[str, float]:
    budget: dict[str, float] = {}
    for difference in differences:
        value = difference.replayed
        if difference.comparer != "usage" or not isinstance(value, int | float):
            continue
        if difference.field == "usage.prefilled_tokens":
            budget["max_prefilled"] = int(value)
        elif difference.field == "usage.cached_share":
            budget["min_cached_share"] = math.floor(value * 1000) / 1000
    return budget


def _added(before: Sequence[Any], value: Any, report: StepReport) -> tuple[Any, ...]:
    if value in before:
        return tuple(before)
    if len(before) >= MAX_ACCEPTED:
        raise InvalidRequest(
            f"step {report.index} has {MAX_ACCEPTED} alternatives already",
            hint="what is different each time is better left out, by ignored regions or a pattern",
        )
    return (*before, value)
