"""The bundle: one recording as a folder, or a zip of it, that people can read, diff and commit.

    recordings/<id>/
      meta.json                   what was recorded, and on what: Meta, indented
      steps.jsonl                 one line a step (StepLine), then one line about the end (EndLine)
      screenshots/<sha256>.png    the screens, under their hash; an agent's as the router got them
      aria/<sha256>.yml           aria snapshots of the pages, where they were taken
      heatmaps/<step>.png         of sessions that prune or evict: what the model had of each
      network.har                 what the pages fetched, when it was recorded
      expect.json                 what a replay must find: Expectations, when it was said

Lines are UTF-8, end with a newline and are only ever appended, each after the screenshot it names.
A run that was killed therefore leaves whole steps, at worst half a last line, and no EndLine.

Every model is closed to unknown fields. What a reader of ``SCHEMA_VERSION`` cannot read needs a
higher one. A reader (reader.py) trusts nothing here: the limits below hold for both sides.
"""

from __future__ import annotations

import re
from typing import Annotated, Literal

from pydantic import AwareDatetime, Field, JsonValue, StringConstraints, TypeAdapter

from agentserve.core.actions.recorded import RecordedAction
from agentserve.core.config import MIB
from agentserve.core.elements import ElementTarget, PageBox
from agentserve.core.model import Wire
from agentserve.core.pages import PageSettings
from agentserve.core.plans import Sha256
from agentserve.core.runs import Pointer, RunSummary
from agentserve.core.screens import ScreenSpace, Size
from agentserve.core.sessions import Outcome, SessionCreate, SessionId, TurnResult
from agentserve.core.workers import WorkerReport

SCHEMA_VERSION = 4
READ_VERSIONS = (2, 3, 4)
"""2: without ``Meta.allow``. 3: without ``StepLine.pointer``, and an agent's without a closing
step."""

META = "meta.json"
STEPS = "steps.jsonl"
EXPECT = "expect.json"
NETWORK = "network.har"
SCREENSHOTS = "screenshots"
HEATMAPS = "heatmaps"
ARIA = "aria"
FOLDERS = (SCREENSHOTS, HEATMAPS, ARIA)

MAX_TASK_CHARS = 8000
MAX_META_BYTES = MIB
MAX_STEPS_BYTES = 64 * MIB
MAX_STEPS_WEIGHT = 8_000_000
"""Of all values in the lines together, as ``json_size`` weighs them."""
MAX_LINE_BYTES = MIB
MAX_LINES = 10_000
MAX_SCREENSHOT_BYTES = 16 * MIB
MAX_HEATMAP_BYTES = MAX_SCREENSHOT_BYTES
MAX_ARIA_BYTES = MIB
MAX_EXPECT_BYTES = 4 * MIB
MAX_NETWORK_BYTES = 256 * MIB

RecordingId = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_-]{1,64}$")]
Name = Annotated[str, StringConstraints(min_length=1, max_length=200)]
Origin = Annotated[str, StringConstraints(pattern=r"^https?://[^\s/?#@]{1,300}$")]
SecretName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z_][A-Za-z0-9_]{0,63}$")]


class ScenarioRef(Wire):
    """The scenario a run was made of."""

    name: Name
    seed: int | None = None


class Imported(Wire):
    """Where a recording of another tool came from."""

    format: Name
    """As ``chrome-recorder``."""
    version: Annotated[str, StringConstraints(max_length=200)] = ""
    """Of the format, or of the tool that wrote it."""
    lost: list[Annotated[str, StringConstraints(max_length=2000)]] = Field(default_factory=list)
    """What could not be taken over, in sentences: nothing is dropped silently."""
    data: JsonValue = None
    """What an export into the same format needs and has no field here."""


class Meta(Wire):
    """Content of meta.json."""

    schema_version: Literal[2, 3, 4] = SCHEMA_VERSION
    id: RecordingId
    """The folder's name when it was written."""
    created_at: AwareDatetime
    agentserve_version: str
    source: Literal["agent", "person", "import"] = "agent"
    """Who acted, or that another tool's recording was taken over."""
    imported: Imported | None = None
    task: Annotated[str, StringConstraints(max_length=MAX_TASK_CHARS)] = ""
    """What was to be done: the session's task, or the title of what was imported."""
    url: str
    """The page's address when the recording began; empty when the source does not say."""
    allow: Annotated[list[Origin], Field(max_length=100)] = Field(default_factory=list)
    """Further origins that might be visited, beside the page's own. A replay may visit them too."""
    viewport: Size
    """In CSS px, as are points of actions and boxes."""
    scale: Annotated[float, Field(gt=0, le=8)] = 1.0
    """Px of a screenshot per CSS px, before rounding to a model's token grid."""
    scenario: ScenarioRef | None = None
    page: PageSettings = Field(default_factory=PageSettings)
    masks: list[PageBox] = Field(default_factory=list)
    """Regions that were painted over in every screenshot before anything saw them."""
    secrets: list[SecretName] = Field(default_factory=list)
    """Values that stand as ``{{secret:NAME}}`` wherever they would have occurred. A replay needs
    those that actions hold."""
    session: SessionCreate | None = None
    """What the session was created with: a replay creates the same. None: no agent acted."""
    session_id: SessionId | None = None
    space: ScreenSpace | None = None
    """The session's spaces."""
    program_sha256: Sha256 | None = None
    """Of the program's source, when known."""
    worker: WorkerReport | None = None
    """The worker that the session began on, when known."""


class StepLine(Wire):
    """One step: what was seen, what was decided, what was done, and what became of it.

    The page as an agent left it is a closing step, in which nothing was decided and nothing done,
    unless the agent had said that it is done: then it had seen the page.

    What differs from run to run though nothing changed is in ``step_ms``, ``result.timings``,
    ``result.session_id`` and ``result.worker`` only.
    """

    type: Literal["step"] = "step"
    index: int
    """Counts from 0, one up a step."""
    url: str
    """The page's address when the screenshot was taken; empty when the source does not say."""
    screenshot: Sha256 | None = None
    """Names screenshots/<sha256>.png: what the turn looked at. None: the source kept none."""
    aria: Sha256 | None = None
    """Names aria/<sha256>.yml: the page's aria snapshot at that time."""
    pointer: Pointer | None = None
    """Where it was when the screenshot was taken. None: where the act before had left it, or the
    source does not say."""
    instruction: str | None = None
    outcome_sent: Outcome | None = None
    """What the turn was told of the action before."""
    result: TurnResult | None = None
    """The router's answer. None: no agent of ours decided."""
    performed: RecordedAction | None = None
    """What was really done, points in CSS px."""
    target: ElementTarget | None = None
    """The element it was aimed at, where known."""
    to_target: ElementTarget | None = None
    """Of a drag: the element it ended on."""
    outcome: Outcome = Outcome(status="ok")
    """What became of it."""
    step_ms: float | None = None
    thought: Annotated[str, StringConstraints(max_length=20_000)] = ""
    """What another tool's agent, or a person, wrote beside the action."""
    origin: JsonValue = None
    """Of an imported step: the source's own, for an export into the same format."""


class EndLine(RunSummary):
    """The last line: how it ended."""

    type: Literal["end"] = "end"


Line = Annotated[StepLine | EndLine, Field(discriminator="type")]
LINE_ADAPTER: TypeAdapter[StepLine | EndLine] = TypeAdapter(Line)


def heatmap_entry(index: int) -> str:
    """Entry of a step's heat map, relative to the recording."""
    return f"{HEATMAPS}/{index:04d}.png"


def screenshot_entry(sha256: str) -> str:
    """Entry of a screenshot, relative to the recording. ``sha256`` must be a checked Sha256."""
    return f"{SCREENSHOTS}/{sha256}.png"


def aria_entry(sha256: str) -> str:
    """Entry of an aria snapshot. ``sha256`` must be a checked Sha256."""
    return f"{ARIA}/{sha256}.yml"


_PLACES = (
    (re.escape(META), MAX_META_BYTES),
    (re.escape(STEPS), MAX_STEPS_BYTES),
    (re.escape(EXPECT), MAX_EXPECT_BYTES),
    (re.escape(NETWORK), MAX_NETWORK_BYTES),
    (rf"{SCREENSHOTS}/[0-9a-f]{{64}}\.png", MAX_SCREENSHOT_BYTES),
    (rf"{ARIA}/[0-9a-f]{{64}}\.yml", MAX_ARIA_BYTES),
    (rf"{HEATMAPS}/[0-9]{{4}}\.png", MAX_HEATMAP_BYTES),
)


def entry_limit(entry: str) -> int | None:
    """Most bytes of an entry; None for a name that the format has no place for. All other names
    are therefore safe to be used as paths below a recording."""
    for pattern, limit in _PLACES:
        if re.fullmatch(pattern, entry):
            return limit
    return None
