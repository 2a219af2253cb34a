"""All that is compared of one step, by one set of expectations. Pure but for what it is handed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from agentserve.core.screens import Size
from agentserve.core.sessions import TurnResult
from agentserve.replay.bundle.format import StepLine
from agentserve.replay.compare.aria import aria_differences
from agentserve.replay.compare.difference import Difference
from agentserve.replay.compare.expectations import Expectations, StepExpectation
from agentserve.replay.compare.prefix import cache_notes, comparable, prefix_differences
from agentserve.replay.compare.screens import screen_differences
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


@dataclass(frozen=True)
class Seen:
    """What a page shows."""

    screenshot: bytes | None = None
    """PNG."""
    aria: bytes | None = None
    """Playwright's aria snapshot, in UTF-8."""


def compare_page(
    recorded: Seen,
    replayed: Seen,
    own: StepExpectation,
    *,
    viewport: Size,
    read_screen: Callable[[str], bytes],
    read_aria: Callable[[str], bytes],
) -> list[Difference]:
    """A step's screen and aria snapshot against those of the live page, by what holds for the step
    (``Expectations.at``). What one side has not is not compared.

    ``read_screen`` and ``read_aria`` give what was accepted, by its SHA-256. Blocking. Raises
    RecordingError for a picture or a snapshot that cannot be read.
    """
    differences: list[Difference] = []
    if recorded.screenshot is not None and replayed.screenshot is not None:
        differences += screen_differences(
            recorded.screenshot,
            replayed.screenshot,
            own.screens,
            viewport=viewport,
            accepted=[lambda sha=sha: read_screen(sha) for sha in own.accepted_screens],
        )
    if own.aria and recorded.aria is not None and replayed.aria is not None:
        was, now = (data.decode(errors="replace") for data in (recorded.aria, replayed.aria))
        accepted = [read_aria(sha).decode(errors="replace") for sha in own.accepted_aria]
        differences += aria_differences(was, now, accepted=accepted)
    return differences
