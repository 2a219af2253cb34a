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
from agentserve.replay.compare.difference import Difference
from agentserve.replay.compare.expectations import MAX_FOUND_TEXT, ActionRule, StepExpectation
from agentserve.replay.compare.turns import by_place, same_point
from agentserve.replay.redaction.secrets import Secrets

LONGEST_LABEL = 80
"""Characters of a text that tells an element from others."""


def aim_differences(step: StepLine, performed: Performed, own: StepExpectation) -> list[Difference]:
    """Whether the element was found, and where; ``performed`` has no secrets. ``own`` holds for the
    step. What was accepted of the element, and where it lies, are two things. Pure."""
    rule = own.actions
    if not rule.checked:
        return []
    differences = []
    found = _found_difference(step, performed)
    if found is not None and not any(
        one.target is not None and one.target.text == found.replayed for one in own.accepted_actions
    ):
        differences.append(found)
    action = performed.action
    if any(_same_points(one.action, action, rule) for one in own.accepted_actions):
        return differences
    names = ("action.point", "action.to_point")
    pairs = zip(points(step.performed), points(action), strict=True)
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


def _same_points(accepted: Any, now: Any, rule: ActionRule) -> bool:
    """Of an accepted action and the one that was performed."""
    if accepted is None or accepted.kind != now.kind:
        return False
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
