"""Where the router keeps what must outlive it: sessions, turns, events, pins."""

from agentserve.router.store.base import (
    EventDraft,
    ModelBinding,
    PassPin,
    SessionRecord,
    Store,
    TurnRecord,
    VersionConflict,
    storage_failed,
)
from agentserve.router.store.sqlite import SqliteStore

__all__ = [
    "EventDraft",
    "ModelBinding",
    "PassPin",
    "SessionRecord",
    "SqliteStore",
    "Store",
    "TurnRecord",
    "VersionConflict",
    "storage_failed",
]
