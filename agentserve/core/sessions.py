"""The wire form between client, router and recordings: sessions, turns, usage, workers."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import Annotated, Literal, Self

from pydantic import Field, StringConstraints, field_validator, model_validator

from agentserve.core.actions import Action
from agentserve.core.model import Wire
from agentserve.core.plans import Box, Sha256
from agentserve.core.pruning import PRESETS, Compression, Eviction, Preset, Pruning
from agentserve.core.screens import ScreenSpace, Size
from agentserve.core.screenshots import ScreenshotRef

SessionId = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_-]{1,64}$")]
MAX_TIMEOUT_S = 86_400.0
MAX_METADATA = 32


Positions = Literal["turn", "session"]
"""Where a mosaic's screens lie: behind the text before them, as an ordinary picture does, or all at
the first one's place, with a time that counts the turns, as in a video."""
VisionContext = Literal["cell", "region", "screen"]
"""What the vision encoder sees beside a cell: nothing, its neighbours that are sent, everything."""


class Outcome(Wire):
    """What became of the last action; the program may show it to the model."""

    status: Literal["ok", "invalid", "failed"]
    message: Annotated[str, StringConstraints(max_length=2000)] = ""


class ScreenPolicy(Wire):
    """How a session's screens are sent, and which of them stay in the prompt."""

    policy: Annotated[str, StringConstraints(max_length=50)] = "full"
    """Which earlier screens a prompt keeps: ``full``, ``current``, ``last:N``,
    ``interval:MIN:STEP`` or ``mosaic``. The next three fields are of ``mosaic`` only."""
    cell: Annotated[int, Field(ge=1, le=1024)] | None = None
    """Edge of the cells that are compared and sent, in model px: a multiple of the model's token
    grid. Four tokens when left out; of a session with another policy None."""
    positions: Positions = "turn"
    vision_context: VisionContext = "screen"
    preset: Preset | None = None
    """``pruning`` and ``eviction`` by a name; with a name there are none of their own."""
    pruning: Pruning | None = None
    """Of ``mosaic``: which of a turn's new visual tokens the model gets, or goes on with."""
    eviction: Eviction | None = None
    """Of ``mosaic``: which of them stay in the KV cache once the turn is answered."""

    @model_validator(mode="after")
    def _named_or_not(self) -> Self:
        if self.preset is not None and (self.pruning is not None or self.eviction is not None):
            raise ValueError(f"the preset {self.preset} says what is pruned and evicted already")
        return self

    @property
    def compression(self) -> Compression:
        """What a turn does to its visual tokens unless it says so itself."""
        if self.preset is not None:
            return PRESETS[self.preset]
        return Compression(pruning=self.pruning, eviction=self.eviction)


class SessionCreate(ScreenPolicy):
    """Body of ``POST /v1/sessions``."""

    program: Annotated[str, StringConstraints(min_length=1, max_length=100)]
    """Name of a registered program."""
    task: Annotated[str, StringConstraints(min_length=1, max_length=8000)]
    model: Annotated[str, StringConstraints(max_length=500)] | None = None
    """Serve only on workers of this model; any worker when left out."""
    viewport: Size
    """The browser's viewport, in CSS px."""
    scale: Annotated[float, Field(gt=0, le=8)] = 1.0
    """Model px per CSS px; each side is then rounded to the model's token grid."""
    surface: Annotated[str, StringConstraints(max_length=200)] = ""
    """What the session looks at, such as the page's origin: a ``mosaic`` learns which of its cells
    are static, and sends them first, so that sessions of one surface share them in the cache."""
    parent: SessionId | None = None
    """An idle session to go on from: the new one has its turns so far, and its next epoch. Program,
    model, viewport, scale and the fields of the policy must be the parent's."""
    metadata: dict[str, str] = Field(default_factory=dict)
    timeout_s: Annotated[float, Field(gt=0)] = 3600.0
    """The session expires this long after its creation."""
    inactivity_timeout_s: Annotated[float, Field(gt=0)] = 900.0
    """The session expires this long after its last turn."""

    @field_validator("metadata")
    @classmethod
    def _small(cls, value: dict[str, str]) -> dict[str, str]:
        if len(value) > MAX_METADATA or any(
            len(k) > 100 or len(v) > 1000 for k, v in value.items()
        ):
            raise ValueError(
                f"metadata holds at most {MAX_METADATA} entries, keys to 100 and values to 1000 "
                "characters"
            )
        for text in (*value, *value.values()):
            text.encode()  # a half of a character is no text: an error of the caller's
        return value


class SessionStatus(StrEnum):
    IDLE = "idle"
    RUNNING = "running"
    PAUSED = "paused"
    RELEASED = "released"
    EXPIRED = "expired"


LossReason = Literal["evicted", "restarted", "moved", "prefix_moved"]
"""The worker needed the room, or was flushed; it began a new life; the session went to another one;
the prompt did not extend the last one, and said so."""


class CacheLoss(Wire):
    """Prompt tokens that a turn computed again though a worker had held them."""

    reason: LossReason
    expected_tokens: int
    found_tokens: int

    @property
    def tokens(self) -> int:
        return self.expected_tokens - self.found_tokens


class Pin(Wire):
    """Which worker holds a session's KV cache. A new ``boot_id`` means that it is cold."""

    worker_id: str
    boot_id: str
    generation: int
    expected_cached_tokens: int = 0
    """Prompt tokens that the worker held after the last turn; 0: it is cold, no turn ran there."""
    held_tokens: int = 0
    """Slots of the worker's KV pool that the session takes; an estimate until a turn ran there."""
    moved: str | None = None
    """Why the session came here from another worker, or another life of it."""
    loss: CacheLoss | None = None
    """What the last turn did not find here; None: all was there."""


Source = Literal["radix", "device", "memory", "folder", "encoder"]
"""Where a picture's tokens came from: their KV was in the prefix cache; its embeddings in SGLang's
own cache, or in the feature cache's memory or folder; or the vision encoder saw it."""


class CallUsage(Wire):
    """One generation call of a turn, as the worker reported it."""

    prompt_tokens: int
    cached_tokens: int
    completion_tokens: int
    pruned_tokens: int = 0
    """Slots freed before the answer began: what a pruning inside the model dropped."""
    freed_tokens: int = 0
    """Slots freed once the call was answered: what newer parts of the screen had superseded, and
    what an eviction chose."""
    unchosen: str | None = None
    """Why a pruning or an eviction that was asked for was not done."""
    rebuilt: bool = False
    """See TurnResult."""
    sources: list[Source] = Field(default_factory=list)
    """Of each picture of the prompt, in order; between program host and router only."""


class Usage(Wire):
    """Token counts of a turn. ``prompt`` and ``cached`` are those of its first call."""

    prompt_tokens: int = 0
    cached_tokens: int = 0
    """Of prompt_tokens, found in the worker's prefix cache."""
    visual_tokens: int = 0
    """Of prompt_tokens, visual."""
    completion_tokens: int = 0
    """Generated, over all calls of the turn."""
    prefilled_tokens: int = 0
    """Computed anew, over all calls of the turn."""
    stored_prefix_tokens: int = 0
    """What a warm worker should have found: the earlier turns' tokens in this prompt."""
    screen_tokens: int = 0
    """Visual tokens of the whole screen, sent or not."""
    sent_tokens: int = 0
    """Visual tokens that this turn added to the prompt: of a ``mosaic``, of what changed."""
    pruned_tokens: int = 0
    """Visual tokens that a pruning inside the model dropped, and whose slots were freed before the
    answer began."""
    freed_tokens: int = 0
    """Slots of the worker's KV cache that were freed once the turn was answered."""
    lost_tokens: int = 0
    """Prompt tokens that were computed again though a worker had held them: see TurnResult.loss."""
    encoded_pictures: int = 0
    """Pictures, or parts of screens, that the vision encoder saw."""
    calls: list[CallUsage] = Field(default_factory=list)

    def plus(self, other: Usage) -> Usage:
        """The sum of two turns, without the single calls."""
        names = [name for name in Usage.model_fields if name != "calls"]
        return Usage(**{name: getattr(self, name) + getattr(other, name) for name in names})


class Timings(Wire):
    """Milliseconds of a turn, from the router's side."""

    queue_ms: float = 0.0
    """Until the turn had its place and had begun."""
    plan_ms: float = 0.0
    """Decoding the screenshot, planning the prompt."""
    program_ms: float = 0.0
    """The program's own turn, waiting for a host and generation included."""
    total_ms: float = 0.0


class Session(ScreenPolicy):
    """A session as ``GET /v1/sessions/{id}`` shows it."""

    id: SessionId
    status: SessionStatus
    program: str
    task: str
    model: str | None
    surface: str = ""
    public: bool = False
    """Whether its surface is one whose caches all tenants share."""
    parent: SessionId | None = None
    """The session that this one was forked from."""
    space: ScreenSpace
    """The viewport, and the screen in model px; a screenshot must have one of its sizes."""
    metadata: dict[str, str]
    created_at: datetime
    expires_at: datetime
    last_active_at: datetime
    closed_at: datetime | None = None
    """When it was released, or expired."""
    timeout_s: float
    inactivity_timeout_s: float
    epoch: int = 0
    """The epoch that the next turn must carry; grows by one with every turn."""
    turns: int = 0
    pin: Pin | None = None
    usage: Usage = Field(default_factory=Usage)
    """Sums over all turns."""
    warnings: list[str] = Field(default_factory=list)


def creation_of(session: Session) -> SessionCreate:
    """The request that makes a session like this one."""
    return SessionCreate(
        program=session.program,
        task=session.task,
        model=session.model,
        viewport=session.space.css,
        scale=session.space.scale,
        surface=session.surface,
        **session.model_dump(include=set(ScreenPolicy.model_fields)),
        metadata=session.metadata,
        timeout_s=session.timeout_s,
        inactivity_timeout_s=session.inactivity_timeout_s,
    )


class SessionPage(Wire):
    """Answer of ``GET /v1/sessions``, newest first."""

    sessions: list[Session]
    next_cursor: str | None = None


class TurnRequest(Wire):
    """JSON body of ``POST /v1/sessions/{id}/turns``."""

    screenshot: ScreenshotRef
    instruction: Annotated[str, StringConstraints(max_length=8000)] | None = None
    """What to do now. The first turn's is the session's task when left out."""
    epoch: Annotated[int, Field(ge=0)] | None = None
    """The session's current epoch; sent along, a repeated request is answered, not run again."""
    outcome: Outcome | None = None
    """What became of the last turn's action."""
    compression: Compression | None = None
    """What this turn does to its visual tokens, instead of what the session says."""
    resend_thin: bool = False
    """Send again, in full, what pruning and eviction have left less of than it had."""


class SentRegion(Wire):
    """A part of the screen that a turn sent."""

    box: Box
    """In model px."""
    tokens: int
    """Of it, in the prompt."""
    full_tokens: int
    """Those that all of the box has."""
    shared: bool = False
    """Static on its surface: other sessions have it in their prefix."""
    left_tokens: int | None = None
    """What is left of it behind the answer. None: all that was sent."""
    source: Source | None = None
    """None: the worker did not tell."""


class TokenMap(Wire):
    """The screen's tokens around a turn. Bitmaps are base64, in raster order, the first token the
    highest bit of the first byte."""

    rows: Annotated[int, Field(ge=1, le=1024)]
    columns: Annotated[int, Field(ge=1, le=1024)]
    sent: str
    """Places that the turn sent anew."""
    live: str
    """Places of which a token is left behind the answer, from this turn or an earlier one."""


class InvalidAction(Wire):
    """The model's text was no action of the grammar. Send it back as the next turn's outcome."""

    text: str
    reason: str


class WorkerRef(Wire):
    id: str
    boot_id: str


class TurnResult(Wire):
    """Answer of a turn."""

    session_id: SessionId
    turn: int
    epoch: int
    """The epoch this turn answered; the next turn's is one higher."""
    action: Action | None = None
    """In CSS px, to be performed as it is. None for programs that do not act, or see invalid."""
    model_action: Action | None = None
    """The same action in model px, as the model pointed."""
    invalid: InvalidAction | None = None
    text: str
    """Everything the model wrote in this turn."""
    variables: dict[str, str] = Field(default_factory=dict)
    """The program's named answers: thought, action, verdict …"""
    usage: Usage
    timings: Timings
    worker: WorkerRef
    screenshot: Sha256
    """Of the bytes as they were sent; of what was sent as changes, of the picture that the router
    has made of it. Later screenshots may name it as their base."""
    move: str | None = None
    """Why the prompt does not extend the last turn's, when it does not."""
    loss: CacheLoss | None = None
    """What the worker should have found of the prompt and did not."""
    regions: list[SentRegion] = Field(default_factory=list)
    """Of the policy ``mosaic``: what of the screen was sent."""
    live_visual_tokens: int = 0
    """Visual tokens that the session's next prompt begins with."""
    token_map: TokenMap | None = None
    """Of the policy ``mosaic``."""
    rebuilt: bool = False
    """Whether the worker computed live tokens anew whose KV had seen more: after a flush, an
    eviction or a move. The answer may then differ from one on the KV as it was."""
    attempts: int = 1
    replayed: bool = False
    """True when a stored answer was returned."""


class TurnPage(Wire):
    """Answer of ``GET /v1/sessions/{id}/turns``, oldest first."""

    turns: list[TurnResult]
    next_cursor: int
    """Pass it as ``after`` to go on."""


class Health(Wire):
    status: Literal["ok", "unavailable"]
    version: str
    workers_ready: int = 0
    programs: list[str] = Field(default_factory=list)
