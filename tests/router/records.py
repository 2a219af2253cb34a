"""What the tests of the stores put into them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from agentserve.core.events import EventType
from agentserve.core.plans import TextPiece
from agentserve.core.screens import Size, screen_space
from agentserve.core.sessions import Pin, Session, SessionStatus, TurnResult
from agentserve.router.store import (
    EventDraft,
    HeldRecord,
    ModelBinding,
    RedisStore,
    SessionRecord,
    SqliteStore,
    Store,
    TurnRecord,
)
from agentserve.router.store.measured import MeasuredStore

STARTED = EventDraft(EventType.TURN_STARTED, {"a": 1})
_RESULT = {
    "session_id": "s_1", "turn": 0, "epoch": 0, "text": "t", "usage": {}, "timings": {},
    "worker": {"id": "w", "boot_id": "b"}, "screenshot": "0" * 64,
}  # fmt: skip


def record(session_id: str = "s_1", *, worker: str = "w-1", boot: str = "b", age_s: float = 0):
    created = datetime.now(UTC) - timedelta(seconds=age_s)
    return SessionRecord(
        session=Session(
            id=session_id,
            status=SessionStatus.IDLE,
            program="p",
            task="t",
            model=None,
            policy="full",
            space=screen_space(Size(width=280, height=280), 1, 28),
            metadata={},
            created_at=created,
            expires_at=created + timedelta(hours=1),
            last_active_at=created,
            timeout_s=3600,
            inactivity_timeout_s=60,
            pin=Pin(worker_id=worker, boot_id=boot, generation=1),
        ),
        binding=ModelBinding(served_model_name="m", tokenizer_sha256="0" * 64, family="f"),
    )


def turn(epoch: int, *ids: int, held: HeldRecord | None = None) -> TurnRecord:
    result = TurnResult.model_validate(_RESULT | {"epoch": epoch, "turn": epoch})
    return TurnRecord(epoch, f"key{epoch}", result, [TextPiece(ids=list(ids))], held)


async def age_blob(store: Store, tenant: str, sha256: str, by_s: float) -> None:
    """As if so much time had gone by since the blob was used, or its removal begun."""
    if isinstance(store, MeasuredStore):
        store = store._store
    if isinstance(store, SqliteStore):
        await store._changed(
            "UPDATE blobs SET used_at = used_at - ?, leaving_at = leaving_at - ?"
            " WHERE tenant = ? AND sha256 = ?",
            *(by_s, by_s, tenant, sha256),
        )
        return
    assert isinstance(store, RedisStore)
    async with store._link.reaching() as redis:
        for index in ("blobs_used", "blobs_leaving"):
            name = f"{{agentserve}}:{index}"
            await redis.zadd(name, {sha256 + tenant: -by_s}, xx=True, incr=True)
