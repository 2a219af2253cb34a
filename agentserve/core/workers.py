"""The wire form of workers: what one tells of itself, and what the router makes of it."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import Annotated, Literal

from pydantic import Field

from agentserve.core.model import Wire
from agentserve.core.plans import Sha256


class HookReport(Wire):
    target: str
    kind: str


class WorkerReport(Wire):
    """What the engine plugin tells of its worker: ``GET /agentserve`` on the worker."""

    plugin: Literal["agentserve"] = "agentserve"
    version: str
    sglang_version: str
    boot_id: str
    hooks: list[HookReport]
    model: str
    """Path or name, as the worker was started."""
    served_model_name: str
    architecture: str
    context_length: int
    max_total_tokens: int
    """Slots of the KV pool, in tokens."""
    page_size: int
    layers: int = 0
    """Of the language model. 0: not told, in recordings of earlier releases."""
    device: str
    tokenizer_sha256: Sha256
    """Hash of what ``GET /agentserve/tokenizer`` returns."""
    releases: bool = False
    """Whether it frees the KV of sessions that are over: ``POST /agentserve/release``."""


Tokens = Annotated[int, Field(ge=0, le=1 << 30)]


class OverSession(Wire):
    """A session that has no more turns on a worker."""

    id: Annotated[str, Field(min_length=1, max_length=200)]
    keep: Tokens = 0
    """First tokens of its prompt that stay: other sessions of its surface begin with them."""
    forked: Tokens = 0
    """First tokens with which forks begin that may not have run yet: these stay, whatever
    becomes of the other forks."""


class KvRelease(Wire):
    """Body of ``POST /agentserve/release`` on a worker."""

    sessions: Annotated[list[OverSession], Field(max_length=256)]


class KvReleased(Wire):
    """What became of it."""

    freed_tokens: int = 0
    """Slots of the KV pool that are free again."""
    running: list[str] = Field(default_factory=list)
    """Sessions of which requests still run: nothing of these is freed yet."""


class WorkerState(StrEnum):
    STARTING = "starting"
    READY = "ready"
    DOWN = "down"
    REFUSED = "refused"


class Drain(Wire):
    """How far a worker is with giving its sessions to others."""

    since: datetime
    left: int
    """Sessions still pinned to it, those whose turns run included."""
    moved: int = 0
    warmed_tokens: int = 0
    """Prompt tokens that the targets computed before pins were moved."""
    reason: str = ""
    """Why what is left is still there."""
    done: bool = False
    """Nothing is left: the worker can be stopped."""


class Worker(Wire):
    """A worker as ``GET /v1/workers`` shows it."""

    id: str
    url: str
    state: WorkerState
    reason: str = ""
    boot_id: str = ""
    """Of its present life: it changes with every restart. Empty until the worker was ready."""
    report: WorkerReport | None = None
    """None for a plain worker, which serves the pass-through only."""
    sessions: int = 0
    """Pins on it."""
    held_tokens: int = 0
    """Slots of its KV pool that these sessions are expected to take."""
    running_turns: int = 0
    resting: bool = False
    """Requests in a row failed though its health is fine: it gets none for a while."""
    drain: Drain | None = None
    """Set while the worker gives its sessions away and takes no new ones."""


class WorkerAdd(Wire):
    """Body of ``POST /v1/workers``."""

    url: str
    """Its base URL."""


class WorkerList(Wire):
    workers: list[Worker]


def for_users(worker: Worker) -> Worker:
    """What a tenant is told of a worker."""
    return Worker(
        id=worker.id,
        url="",
        state=worker.state,
        boot_id=worker.boot_id,
        report=worker.report and worker.report.model_copy(update={"hooks": []}),
    )
