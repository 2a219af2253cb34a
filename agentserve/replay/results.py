"""What a replay found, in whichever mode: the models that summaries, pages and JUnit files show."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from pydantic import Field

from agentserve.core.actions.recorded import RecordedAction
from agentserve.core.elements import ElementTarget
from agentserve.core.model import Wire
from agentserve.core.plans import Sha256
from agentserve.core.sessions import InvalidAction, SessionId, TokenMap, Usage
from agentserve.replay.bundle.reader import Recording
from agentserve.replay.compare.difference import Difference
from agentserve.replay.compare.expectations import Expectations

Mode = Literal["model", "browser", "full", "engine"]
"""``model``: the recorded screens through a router; ``browser``: the recorded actions on the live
pages; ``full``: an agent does the task anew; ``engine``: the same prompts on two workers."""


class Side(Wire):
    """One side of a compared step."""

    screenshot: Sha256 | None = None
    aria: Sha256 | None = None
    """Of the page's aria snapshot, where one was taken."""
    action: RecordedAction | None = None
    """In CSS px."""
    target: ElementTarget | None = None
    to_target: ElementTarget | None = None
    """Of a drag."""
    invalid: InvalidAction | None = None
    text: str = ""
    variables: dict[str, str] = Field(default_factory=dict)
    usage: Usage | None = None
    """None: nothing was asked."""
    token_map: TokenMap | None = None
    rebuilt: bool = False
    ms: float | None = None
    """Of the turn, or of the step where there was none."""


class StepReport(Wire):
    """One step, as it was and as it is now."""

    index: int
    recorded: Side
    """Of a page: the screen and the snapshot that it is compared with, the last accepted ones."""
    replayed: Side
    same: bool
    """Nothing differs of what was compared."""
    compared: bool = True
    """False: what was decided was not compared, a note of the report says why. Without differences
    such a step is neither the same nor different."""
    closing: bool = False
    """Nothing was done in it: it shows the page as it was left."""
    differences: list[Difference]


def counts_of(steps: Sequence[StepReport]) -> dict[str, int]:
    """The counts of Totals: each step is in one of them."""
    different = sum(not step.same for step in steps)
    not_compared = sum(step.same and not step.compared for step in steps)
    return {
        "same": len(steps) - different - not_compared,
        "different": different,
        "not_compared": not_compared,
    }


class ReplayFailure(Wire):
    """The error that ended a replay early."""

    index: int | None
    """The step that failed; None when none could begin."""
    code: str
    message: str
    hint: str


class Totals(Wire):
    """Sums. Both usages are of the replayed steps, so that they compare."""

    recorded_steps: int
    replayed_steps: int
    same: int
    different: int
    not_compared: int = 0
    """Steps without differences whose decision was not compared."""
    recorded_usage: Usage
    replayed_usage: Usage


class ReplayReport(Wire):
    """What a replay found."""

    recording: str
    """Id of the recording."""
    name: str
    """The test's: where the recording lies, or its id."""
    mode: Mode
    program: str
    """Empty when no agent acted."""
    task: str
    complete: bool
    """False when the recording was cut off before it ended."""
    session_id: SessionId | None = None
    """The replay's own session; None when there was none."""
    settings: dict[str, str] = Field(default_factory=dict)
    """What was compared and how: tolerances, thresholds, workers."""
    steps: list[StepReport]
    differences: list[Difference] = Field(default_factory=list)
    """Of the recording as a whole: its outcome, its budgets."""
    totals: Totals
    error: ReplayFailure | None = None
    notes: list[str] = Field(default_factory=list)
    """What makes a difference explainable, in sentences."""
    seconds: float = 0.0
    same: bool
    """Every recorded step was replayed, at least one was compared, and nothing differs."""


@dataclass(frozen=True)
class Replayed:
    """A report with what its pages show."""

    report: ReplayReport
    recording: Recording | None
    """None: it could not be read."""
    pictures: Mapping[str, bytes] = field(default_factory=dict)
    """PNGs of the replay by SHA-256; the recording's are read from it."""
    arias: Mapping[str, bytes] = field(default_factory=dict)
    """Aria snapshots of the replay, likewise."""
    expectations: Expectations | None = None
    """What it was compared by, when not by the recording's own."""


OnStep = Callable[[StepReport], None]
