"""Events of a session: what the router stores and streams, in order, and clients may resume at."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import Any

from pydantic import Field

from agentserve.core.model import Wire
from agentserve.core.sessions import TurnResult


class EventType(StrEnum):
    SESSION_CREATED = "session.created"
    SESSION_PAUSED = "session.paused"
    SESSION_RESUMED = "session.resumed"
    SESSION_RELEASED = "session.released"
    SESSION_EXPIRED = "session.expired"
    PIN_PLACED = "pin.placed"
    PIN_MOVED = "pin.moved"
    TURN_QUEUED = "turn.queued"
    """Of a turn that found no place; it is followed by ``turn.started``, or ``turn.failed``."""
    TURN_STARTED = "turn.started"
    TURN_RETRIED = "turn.retried"
    TURN_COMPLETED = "turn.completed"
    TURN_FAILED = "turn.failed"


TERMINAL = (EventType.SESSION_RELEASED, EventType.SESSION_EXPIRED)


class Event(Wire):
    """``seq`` counts from 1 within a session without gaps: it is the cursor."""

    session_id: str
    seq: int
    type: EventType
    at: datetime
    data: dict[str, Any] = Field(default_factory=dict)


class TurnEventType(StrEnum):
    """Of the stream of one turn."""

    QUEUED = "queued"
    STARTED = "started"
    RETRIED = "retried"
    COMPLETED = "completed"


class TurnEvent(Wire):
    """One event of a turn's stream."""

    id: str
    """``<session>:<epoch>:<n>``: sent along as Last-Event-ID, it says what was seen already."""
    type: TurnEventType
    data: dict[str, Any] = Field(default_factory=dict)

    @property
    def result(self) -> TurnResult | None:
        """Of ``completed``."""
        if self.type is not TurnEventType.COMPLETED:
            return None
        return TurnResult.model_validate(self.data)


class EventPage(Wire):
    """Answer of ``GET /v1/sessions/{id}/events`` without streaming."""

    events: list[Event]
    next_cursor: int
    """Pass it as ``after`` to go on."""
