"""What the store is told of a turn: that it waits, has begun, was begun again, is answered, failed.

A session is shown as running from the moment its turn waits or begins until it is answered or has
failed; other routers leave it alone for as long.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Any

from agentserve.core.errors import AgentServeError, StaleEpoch, TurnInProgress
from agentserve.core.events import EventType
from agentserve.core.plans import Piece, VisualItem, num_tokens
from agentserve.core.sessions import SessionStatus, TurnResult
from agentserve.router.events import EventLog
from agentserve.router.sessions import Sessions, now
from agentserve.router.store import (
    EventDraft,
    SessionRecord,
    Store,
    TurnRecord,
    VersionConflict,
)

log = logging.getLogger(__name__)
_TOLD = {
    "turn", "epoch", "action", "invalid", "usage", "timings", "move", "regions",
    "live_visual_tokens", "loss", "rebuilt",
}  # fmt: skip
"""Of a turn's result, in its event."""


class TurnLog:
    """Those that write return the record as it then is."""

    def __init__(self, store: Store, events: EventLog, sessions: Sessions) -> None:
        self._store = store
        self._events = events
        self._sessions = sessions

    async def begin(self, record: SessionRecord, event: EventDraft) -> SessionRecord:
        """The turn ``record.running`` waits or runs. Raises VersionConflict."""
        return await self._events.update(
            record.with_session(status=SessionStatus.RUNNING, last_active_at=now()),
            event,
            synced=False,  # a power cut ends the turn as well
        )

    async def tell(self, record: SessionRecord, event: EventDraft) -> SessionRecord:
        """An event of a turn that goes on, whatever else has changed. Raises SessionClosed and
        TurnInProgress when it does not."""
        while True:
            try:
                return await self._events.update(record, event, synced=False)
            except VersionConflict:
                record = await self._still_ours(record)

    async def complete(
        self, record: SessionRecord, turn: TurnRecord, after: list[Piece]
    ) -> SessionRecord:
        result = turn.result
        held = num_tokens(after)
        screens = [p.turn for p in after if isinstance(p, VisualItem)]
        data = result.model_dump(mode="json", include=_TOLD)
        while True:
            session = record.session
            pin = session.pin
            if pin is not None and pin.boot_id == result.worker.boot_id:
                told = {
                    "expected_cached_tokens": held,
                    "held_tokens": held,
                    "loss": result.loss,
                }
                pin = pin.model_copy(update=told)
            done = record.with_session(
                status=SessionStatus.IDLE,
                last_active_at=now(),
                epoch=result.epoch + 1,
                turns=result.turn + 1,
                pin=pin,
                usage=session.usage.plus(result.usage),
            )
            oldest = min(screens, default=result.turn + 1)
            done = done.model_copy(update={"running": None, "oldest_screen": oldest})
            try:
                event = EventDraft(EventType.TURN_COMPLETED, data)
                return await self._events.update(done, event, turn=turn)
            except VersionConflict:  # the pin was moved, the session closed, or taken from us
                record = await self._still_ours(record)

    async def fail(self, record: SessionRecord, error: BaseException) -> bool:
        """Back to idle at the same epoch, unless the session was closed meanwhile: whether it was,
        or is not there any more."""
        reason = _reason(error)
        log.warning("the turn failed: %s: %s", reason["code"], reason["message"])
        data = {"epoch": record.session.epoch, **reason}
        while True:
            current = await self._store.get(record.session.id)
            if (
                current is None
                or current.session.status is not SessionStatus.RUNNING
                or current.running != record.running
            ):
                return current is None or current.closed
            try:
                current = current.model_copy(update={"running": None})
                await self._events.update(
                    current.with_session(status=SessionStatus.IDLE, last_active_at=now()),
                    EventDraft(EventType.TURN_FAILED, data),
                )
                return False
            except VersionConflict:
                continue

    async def answer(self, record: SessionRecord, epoch: int, key: str) -> TurnResult:
        """What the same request was answered. Raises StaleEpoch when none was."""
        turn = await self._store.turn(record.session.id, epoch)
        if turn is None or turn.key != key:
            raise stale(record, epoch)
        return turn.result.model_copy(update={"replayed": True})

    async def _still_ours(self, record: SessionRecord) -> SessionRecord:
        current = await self._sessions.open(record.session.id)
        if current.running != record.running:
            raise TurnInProgress(
                f"session {record.session.id} was taken over by another router while this one "
                "was silent",
                hint="ask again with the session's current epoch",
                details={"epoch": current.session.epoch},
            ) from None
        return current


def _reason(error: BaseException) -> dict[str, Any]:
    if isinstance(error, AgentServeError):
        return {"code": error.code, "message": error.message}
    if isinstance(error, asyncio.CancelledError):
        return {"code": "cancelled", "message": "nobody waits for it, or the router stops"}
    return {"code": "internal", "message": type(error).__name__}


def stale(record: SessionRecord, epoch: int) -> StaleEpoch:
    current = record.session.epoch
    return StaleEpoch(
        f"epoch {epoch} is not the session's current one, which is {current}",
        hint="take a new screenshot and send it with the current epoch",
        details={"epoch": current},
    )


def beginning(record: SessionRecord, screenshot: str, request_id: str) -> dict[str, str | int]:
    """Of a turn, in the event that it begins with."""
    return {
        "epoch": record.session.epoch,
        "turn": record.session.turns,
        "screenshot": screenshot,
        "request_id": request_id,
    }
