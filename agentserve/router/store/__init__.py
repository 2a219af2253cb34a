"""Where the router keeps what must outlive it: sessions, turns, events, pins."""

from agentserve.router.store.base import (
    CLOSED,
    OPEN,
    EventDraft,
    Forked,
    HeldRecord,
    ModelBinding,
    PassPin,
    PinLoad,
    RunningTurn,
    SessionRecord,
    Store,
    TurnRecord,
    VersionConflict,
    storage_failed,
)
from agentserve.router.store.ledger import BlobLeaving, BlobLedger, BlobName, Claim
from agentserve.router.store.measured import MeasuredStore
from agentserve.router.store.redis import RedisStore
from agentserve.router.store.sqlite import SqliteStore

__all__ = [
    "CLOSED",
    "OPEN",
    "BlobLeaving",
    "BlobLedger",
    "BlobName",
    "Claim",
    "EventDraft",
    "Forked",
    "HeldRecord",
    "MeasuredStore",
    "ModelBinding",
    "PassPin",
    "PinLoad",
    "RedisStore",
    "RunningTurn",
    "SessionRecord",
    "SqliteStore",
    "Store",
    "TurnRecord",
    "VersionConflict",
    "storage_failed",
]
