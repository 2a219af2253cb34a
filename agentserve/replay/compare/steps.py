"""All that is compared of one turn, by one set of expectations. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from agentserve.core.screens import Size
from agentserve.core.sessions import TurnResult
from agentserve.replay.bundle.format import StepLine
from agentserve.replay.compare.difference import Difference
from agentserve.replay.compare.expectations import Expectations
from agentserve.replay.compare.prefix import cache_notes, comparable, prefix_differences
from agentserve.replay.compare.turns import turn_differences
from agentserve.replay.compare.usage import turn_usage_differences


@dataclass(frozen=True)
class Compared:
    """What was found of a step."""

    differences: list[Difference]
    notes: list[str]
    """What makes a difference explainable, or why something was not compared."""
    decided: bool = True
    """Whether the decision was compared."""


def compare_turn(
    step: StepLine,
    replayed: TurnResult,
    expectations: Expectations | None = None,
    *,
    viewport: Size | None = None,
) -> Compared:
    """A step's turn against the same turn asked anew: what was decided, what it cost, and whether
    its prompt extends the last one. ``viewport`` is the step's, in CSS px.

    The decision of a turn that was rebuilt is compared with a rebuilt one's alone; where only one
    of them was, a note says so. Raises InvalidRequest for a pattern that is none.
    """
    own = (expectations or Expectations()).at(step.index)
    recorded = step.result
    differences: list[Difference] = []
    notes: list[str] = []
    decided = True
    if recorded is not None:
        notes = cache_notes(recorded, replayed)
        decided = comparable(recorded, replayed)
        if decided:
            differences += turn_differences(
                recorded,
                replayed,
                own.actions,
                target=step.target,
                to_target=step.to_target,
                viewport=viewport,
                accepted=own.accepted_by("model"),
            )
    differences += turn_usage_differences(
        recorded and recorded.usage, replayed.usage, own.usage, accepted=own.accepted_counts
    )
    if own.prefix:
        differences += prefix_differences(recorded, replayed)
    return Compared(differences, notes, decided)
