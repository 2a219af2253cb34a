"""The store protocol.

A session is written with optimistic concurrency: ``update`` succeeds only for the version that was
read, in one transaction with the events and the turn that belong to the change. No caller relies on
a lock of the database, so that several routers can share one.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

from pydantic import Field, TypeAdapter

from agentserve.core.errors import StorageFailed
from agentserve.core.events import Event, EventType
from agentserve.core.model import Wire
from agentserve.core.plans import Piece, Sha256
from agentserve.core.sessions import Pin, Session, SessionStatus, TurnResult
from agentserve.core.tenants import ApiKey
from agentserve.router.store.ledger import BlobLedger
from agentserve.vision.layouts import LayoutLearner

OPEN = (SessionStatus.IDLE, SessionStatus.RUNNING)
CLOSED = (SessionStatus.RELEASED, SessionStatus.EXPIRED)
PIECES: TypeAdapter[list[Piece]] = TypeAdapter(list[Piece])


def storage_failed(error: Exception) -> StorageFailed:
    """What a client is told when something could not be stored; nothing of it was."""
    return StorageFailed(
        f"the router cannot store this: {error}",
        hint="its operator must free space in the data folder; then ask again",
        retry_after=30,
    )


class VersionConflict(Exception):
    """Somebody else changed the session since it was read: read it again and decide anew."""


class ModelBinding(Wire):
    """The model a session was placed on first. Its token ids mean nothing to another one."""

    served_model_name: str
    tokenizer_sha256: Sha256
    family: str


class RunningTurn(Wire):
    """The turn that a session runs now."""

    router: str
    """The router process that runs it."""
    key: str
    """Which request it answers: see TurnRecord."""


class Forked(Wire):
    """Where another session was last begun from this one."""

    turn: int
    """The next one then."""
    tokens: int
    """Of the prompt that the worker held."""


class SessionRecord(Wire):
    """A session with what only the router needs to know of it."""

    session: Session
    binding: ModelBinding
    tenant: str = ""
    oldest_screen: int = 0
    """Screens of earlier turns are no longer part of the prompt (see vision.policies)."""
    running: RunningTurn | None = None
    """Set while a turn runs."""
    tenant: str = ""
    """Whose it is."""
    salt: str = ""
    """What keeps it apart in the workers' caches: see core.tenants. Empty: nothing does."""
    forked: Forked | None = None
    version: int = 0

    @property
    def open(self) -> bool:
        return self.session.status in OPEN

    @property
    def closed(self) -> bool:
        return self.session.status in CLOSED

    @property
    def deadline(self) -> float:
        """When the session expires unless something happens, in seconds since the epoch; of a
        closed one, when that was."""
        session = self.session
        if session.closed_at is not None:
            return session.closed_at.timestamp()
        if session.status is SessionStatus.PAUSED:
            return session.expires_at.timestamp()
        return min(
            session.expires_at.timestamp(),
            session.last_active_at.timestamp() + session.inactivity_timeout_s,
        )

    def with_session(self, **changes: Any) -> SessionRecord:
        """The record with some of the session's fields changed."""
        return self.model_copy(update={"session": self.session.model_copy(update=changes)})


class HeldRecord(Wire):
    """What the worker of a mosaic session holds of it (vision.mosaic.Held, pictures by name)."""

    pieces: list[Piece] = Field(default_factory=list)
    """Settled: the next plan begins with exactly these."""
    shown: Sha256 | None = None
    """The blob of the model image that the parts among them show."""
    since: int = 0
    """The turn with which the prompt began."""
    forked: bool = False
    """Whether another session goes on from the same pieces: both leave them to each other."""
    resend_thin: bool = False
    """Whether the program asked for the thin parts of the next screen."""


@dataclass(frozen=True)
class TurnRecord:
    """A completed turn. ``key`` says which request it answered."""

    epoch: int
    key: str
    result: TurnResult
    pieces: Sequence[Piece]
    held: HeldRecord | None = None
    """Of a mosaic session: what is held from now on. Not read back with the turn."""


@dataclass(frozen=True)
class EventDraft:
    """An event before the store gives it its place in the session's order."""

    type: EventType
    data: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class PassPin:
    """The pin of a pass-through session, which is nothing but a name."""

    session_id: str
    pin: Pin
    used_at: float
    """Seconds since the epoch, kept to the minute."""


class PinLoad(NamedTuple):
    """What the open sessions of a worker come to."""

    sessions: int
    tokens: int
    """The sum of their ``Pin.held_tokens``."""


class Store(Protocol):
    """Durable when a call returns. Reads see every write that was acknowledged before."""

    @property
    def ledger(self) -> BlobLedger:
        """Of the blobs, whose bytes are elsewhere."""
        ...

    async def close(self) -> None: ...

    # sessions

    async def create(
        self,
        record: SessionRecord,
        events: Sequence[EventDraft],
        parent: SessionRecord | None = None,
    ) -> None:
        """Store a new session; with ``parent`` it begins with a copy of that one's turns and of
        what is held of it, which is marked as forked in both.

        Raises VersionConflict when the id is taken, or the parent is another one by now.
        """
        ...

    async def get(self, session_id: str) -> SessionRecord | None: ...

    async def update(
        self,
        record: SessionRecord,
        events: Sequence[EventDraft] = (),
        turn: TurnRecord | None = None,
        *,
        synced: bool = True,
    ) -> SessionRecord:
        """Write the record and return it with its new version. Without ``synced`` a store on this
        machine may lose it to a power cut, unless something was written behind it with: for what
        nobody is told of before. Raises VersionConflict when the stored version is not
        ``record.version``, or the session is gone."""
        ...

    async def delete(self, session_id: str) -> None:
        """Remove the session with its turns and events."""
        ...

    async def page(
        self,
        *,
        status: SessionStatus | None,
        before: int | None,
        limit: int,
        tenant: str | None = None,
    ) -> tuple[list[SessionRecord], int | None]:
        """Sessions, newest first, and the cursor that continues (None at the end); without
        ``tenant`` everybody's."""
        ...

    async def due(self, now: float, limit: int) -> list[SessionRecord]:
        """Idle and paused sessions whose deadline has passed."""
        ...

    async def closed(self, before: float, limit: int) -> list[SessionRecord]:
        """Sessions that were closed before then, in seconds since the epoch; the oldest first."""
        ...

    async def counts(self) -> dict[str, int]:
        """Number of sessions by status."""
        ...

    # turns and events

    async def turn(self, session_id: str, epoch: int) -> TurnRecord | None: ...

    async def turns(self, session_id: str, start: int, limit: int) -> list[TurnResult]:
        """Results of the turns from epoch ``start`` on."""
        ...

    async def transcript(self, session_id: str) -> list[Piece]:
        """The pieces of all turns, in order."""
        ...

    async def held(self, session_id: str) -> HeldRecord | None:
        """As the last turn that had one left it."""
        ...

    async def events(self, session_id: str, after: int, limit: int) -> list[Event]: ...

    # pins

    async def pin_loads(self) -> dict[str, PinLoad]:
        """Open sessions by worker; those without any are left out."""
        ...

    async def pinned(self, worker_id: str, limit: int, *, but: str = "") -> list[SessionRecord]:
        """Open sessions pinned to a worker, in whichever life of it but this one."""
        ...

    async def pass_pin(self, session_id: str) -> PassPin | None:
        """What another process has just put in its place may not have been heard of yet: to put
        one tells."""
        ...

    async def put_pass_pin(self, pin: PassPin, was: Pin | None) -> PassPin:
        """Store it where ``was`` is (None: nothing), or is no more; or itself, with a later use.
        Answers what is stored then, which is another's when that one was first."""
        ...

    async def drop_pass_pins(self, used_before: float) -> int: ...

    # layouts

    async def layouts(self, surface: Sha256) -> LayoutLearner | None:
        """What is known of a surface, by its key."""
        ...

    async def put_layouts(self, surface: Sha256, learner: LayoutLearner) -> None:
        """The last writer wins, and a power cut may lose it: what is lost is seen again."""
        ...

    # routers

    async def beat(self, router: str, ttl_s: float) -> None:
        """A router process says that it lives, for the next ``ttl_s`` seconds."""
        ...

    async def alive(self) -> set[str]:
        """The router processes whose last beat still holds; of a store that one process has to
        itself, none."""
        ...

    async def agree(self, name: str, value: str) -> str:
        """What the first router that asked has said: all that share the store must agree on it."""
        ...

    # keys

    async def put_key(self, key: ApiKey) -> None:
        """A new one, or other facts of one that there is."""
        ...

    async def key(self, key_id: str) -> ApiKey | None: ...

    async def keys(self) -> list[ApiKey]:
        """All of them, oldest first."""
        ...

    async def drop_key(self, key_id: str) -> bool:
        """Whether there was such a key."""
        ...

    # workers

    async def added_workers(self) -> list[str]:
        """URLs of the workers that were added at run time."""
        ...

    async def add_worker(self, url: str) -> None: ...

    async def remove_worker(self, url: str) -> bool:
        """Whether it was one of those."""
        ...

    # drains

    async def drains(self) -> dict[str, str]:
        """The workers that are being emptied, and the router that sees to it, by worker id."""
        ...

    async def put_drain(self, worker_id: str, router: str) -> None: ...

    async def drop_drain(self, worker_id: str) -> None: ...

    def changes(self) -> AsyncIterator[str]:
        """Ids of sessions that another process changed, as it happens. Some may be missed: who
        follows a session reads it now and then as well. Ends only where the store is no other
        process's."""
        ...
