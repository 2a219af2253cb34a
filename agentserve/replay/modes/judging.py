"""What a replayed step of a page is judged by, beside what the page shows. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

from agentserve.core.actions import points
from agentserve.core.elements import ElementTarget
from agentserve.core.runs import NetworkNote, Performed
from agentserve.core.sessions import Outcome
from agentserve.replay.bundle.format import StepLine
from agentserve.replay.compare.difference import Difference, against_accepted
from agentserve.replay.compare.expectations import (
    MAX_FOUND_TEXT,
    AcceptedAction,
    ActionRule,
    StepExpectation,
)
from agentserve.replay.compare.turns import by_place, same_point
from agentserve.replay.redaction.secrets import Secrets

LONGEST_LABEL = 80
"""Characters of a text that tells an element from others."""


def aim_differences(step: StepLine, performed: Performed, own: StepExpectation) -> list[Difference]:
    """Whether the element was found, and where; ``performed`` has no secrets. ``own`` holds for the
    step. What was accepted of the element, and where it lies, are two things; each stands in the
    place of what was recorded. Pure."""
    rule = own.actions
    if not rule.checked:
        return []
    accepted = own.accepted_by("browser")
    differences = []
    found = _found_difference(step, performed)
    if not accepted:
        differences = [found] if found is not None else []
    elif not any(_same_target(one, step, found) for one in accepted):
        differences = against_accepted([found or _back(step, accepted[-1])])
    action = performed.action
    aimed: list[Any] = [one.action for one in accepted if _of_kind(one.action, action)]
    if any(_same_points(one, action, rule) for one in aimed):
        return differences
    names = ("action.point", "action.to_point")
    pairs = zip(points(aimed[-1] if aimed else step.performed), points(action), strict=True)
    for name, (was, now) in zip(names, pairs, strict=False):
        if not same_point(was, now, rule):
            differences.append(
                Difference(
                    comparer="action",
                    field=name,
                    recorded=list(was),
                    replayed=list(now),
                    message=f"the element has moved by {math.dist(was, now):.0f} px",
                )
            )
    return differences


def _found_difference(step: StepLine, performed: Performed) -> Difference | None:
    """That no selector finds the element (``replayed`` None), or that another text is in its
    place."""
    if _sought(step.target) and points(step.performed) and performed.found_by is None:
        return Difference(
            comparer="action",
            field="action.target",
            recorded=step.target.text or step.target.tag,
            message="no selector of the recording finds the element any more; the action was "
            "aimed at the recorded point",
        )
    if performed.found_by and by_place(performed.found_by) and _another_text(step, performed):
        return Difference(
            comparer="action",
            field="action.target",
            recorded=step.target.text,
            replayed=performed.found_text[:MAX_FOUND_TEXT],
            message="the element was found by its place alone, and shows another text",
        )
    return None


def _same_target(accepted: AcceptedAction, step: StepLine, found: Difference | None) -> bool:
    """``found`` None: the recorded element was found."""
    if accepted.target is None:
        return found is None
    return accepted.target.text == (found.replayed if found is not None else _text(step))


def _back(step: StepLine, accepted: AcceptedAction) -> Difference:
    assert accepted.target is not None
    return Difference(
        comparer="action",
        field="action.target",
        recorded=accepted.target.text,
        replayed=_text(step),
        message="the recorded element is found again",
    )


def _text(step: StepLine) -> str:
    return (step.target.text if step.target else "")[:MAX_FOUND_TEXT]


def _of_kind(accepted: Any, now: Any) -> bool:
    return accepted is not None and accepted.kind == now.kind


def _same_points(accepted: Any, now: Any, rule: ActionRule) -> bool:
    """Of an accepted action and the one that was performed."""
    pairs = zip(points(accepted), points(now), strict=True)
    return all(same_point(was, is_now, rule) for was, is_now in pairs)


def outcome_differences(
    recorded: Outcome, replayed: Outcome, *, messages: bool
) -> list[Difference]:
    """What became of an action. Without ``messages``, which other tools do not keep, whether it
    could be done. Pure."""
    if recorded.status != replayed.status:
        return [
            Difference(
                comparer="outcome",
                field="outcome.status",
                recorded=recorded.status,
                replayed=replayed.status,
                message=replayed.message or recorded.message,
            )
        ]
    if messages and recorded.message != replayed.message:
        return [
            Difference(
                comparer="outcome",
                field="outcome.message",
                recorded=recorded.message,
                replayed=replayed.message,
                message="the page answered otherwise",
            )
        ]
    return []


def _another_text(step: StepLine, performed: Performed) -> bool:
    """Long texts are those of containers: they change, and say little about which one it is."""
    text = step.target.text if step.target else ""
    return 0 < len(text) <= LONGEST_LABEL and text != performed.found_text


def _sought(target: ElementTarget | None) -> bool:
    return target is not None and bool(target.selectors)


def network_differences(notes: Iterable[NetworkNote], secrets: Secrets) -> list[Difference]:
    """Without the secrets' values."""
    return [
        Difference(
            comparer="network",
            field=f"network.{note.what}",
            recorded=note.recorded and secrets.hidden(note.recorded),
            replayed=note.replayed and secrets.hidden(note.replayed),
            message=secrets.hidden(note.request),
        )
        for note in notes
    ]
