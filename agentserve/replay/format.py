"""The bundle: one run of an agent as a folder that people can read, diff and commit.

    recordings/<id>/
      meta.json                   what was run, and on what: Meta, indented
      steps.jsonl                 one line a step (StepLine), then one line about the end (EndLine)
      screenshots/<sha256>.png    the bytes that the router was sent, under their hash
      heatmaps/<step>.png         of sessions that prune or evict: what the model had of each

Lines are UTF-8, end with a newline and are only ever appended, each after the screenshot it names.
A run that was killed therefore leaves whole steps, at worst half a last line, and no EndLine.

Every model is closed to unknown fields. What a reader of ``SCHEMA_VERSION`` cannot read needs a
higher one. A reader (reader.py) trusts nothing here: the limits below hold for both sides.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AwareDatetime, Field, StringConstraints, TypeAdapter

from agentserve.core.config import MIB
from agentserve.core.model import Wire
from agentserve.core.plans import Sha256
from agentserve.core.runs import RunSummary, Step
from agentserve.core.screens import ScreenSpace
from agentserve.core.sessions import SessionCreate, SessionId
from agentserve.core.workers import WorkerReport

SCHEMA_VERSION = 1

META = "meta.json"
STEPS = "steps.jsonl"
SCREENSHOTS = "screenshots"
HEATMAPS = "heatmaps"

MAX_META_BYTES = MIB
MAX_STEPS_BYTES = 64 * MIB
MAX_LINE_BYTES = MIB
MAX_LINES = 10_000
MAX_SCREENSHOT_BYTES = 16 * MIB

RecordingId = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_-]{1,64}$")]


class ScenarioRef(Wire):
    """The scenario a run was made of."""

    name: Annotated[str, StringConstraints(min_length=1, max_length=200)]
    seed: int | None = None


class Meta(Wire):
    """Content of meta.json."""

    schema_version: Literal[1] = SCHEMA_VERSION
    id: RecordingId
    """The folder's name when it was written."""
    created_at: AwareDatetime
    agentserve_version: str
    url: str
    """The page's address when the run began."""
    scenario: ScenarioRef | None = None
    session: SessionCreate
    """What the session was created with: a replay creates the same."""
    session_id: SessionId
    space: ScreenSpace
    """The session's spaces. Points of actions are in ``space.css``."""
    program_sha256: Sha256 | None = None
    """Of the program's source, when known."""
    worker: WorkerReport | None = None
    """The worker that the session began on, when known."""


class _StepHead(Wire):
    type: Literal["step"] = "step"
    screenshot: Sha256
    """Names screenshots/<sha256>.png: what the turn looked at."""


class StepLine(Step, _StepHead):
    """One step: the fields of core.runs.Step behind ``type`` and ``screenshot``.

    What differs from run to run though nothing changed is in ``step_ms``, ``result.timings``,
    ``result.session_id`` and ``result.worker`` only.
    """


class _EndHead(Wire):
    type: Literal["end"] = "end"


class EndLine(RunSummary, _EndHead):
    """The last line: how the run ended."""


Line = Annotated[StepLine | EndLine, Field(discriminator="type")]
LINE_ADAPTER: TypeAdapter[StepLine | EndLine] = TypeAdapter(Line)


def heatmap_entry(index: int) -> str:
    """Entry of a step's heat map, relative to the recording."""
    return f"{HEATMAPS}/{index:04d}.png"


def screenshot_entry(sha256: str) -> str:
    """Entry of a screenshot, relative to the recording. ``sha256`` must be a checked Sha256."""
    return f"{SCREENSHOTS}/{sha256}.png"
