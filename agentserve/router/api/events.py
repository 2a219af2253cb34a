"""``/v1/sessions/{id}/events``: what happened, as a page or as a stream."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Annotated

from fastapi import APIRouter, Header, Query, Request, Response
from sse_starlette import EventSourceResponse, ServerSentEvent

from agentserve.core.errors import InvalidRequest
from agentserve.core.events import EventPage
from agentserve.router.api.deps import Cursor, OwnSession, Parts, documented
from agentserve.router.services import Services

router = APIRouter(prefix="/v1/sessions/{session_id}/events", tags=["events"])


@router.get(
    "",
    response_model=EventPage,
    responses=documented("unknown_session")
    | {
        200: {
            "description": "A page of events; with `Accept: text/event-stream`, a stream of them "
            "until the session is closed.",
            "content": {
                "text/event-stream": {
                    "schema": {"type": "string"},
                    "example": 'id: 1\nevent: session.created\ndata: {"seq": 1, …}\n\n',
                }
            },
        }
    },
)
async def list_events(
    session_id: OwnSession,
    request: Request,
    parts: Parts,
    after: Cursor = 0,
    limit: Annotated[int, Query(ge=1, le=1000)] = 500,
    last_event_id: Annotated[
        str | None, Header(description="As `after`; a reconnecting EventSource sends it.")
    ] = None,
) -> Response | EventPage:
    """Events behind a cursor. `seq` counts from 1 without gaps, so nothing is missed or repeated
    by a client that continues with the last `seq` it saw."""
    if "text/event-stream" not in request.headers.get("accept", ""):
        return await parts.events.page(session_id, after, limit)
    if last_event_id is not None:
        if not (last_event_id.isascii() and last_event_id.isdigit() and len(last_event_id) < 19):
            raise InvalidRequest("Last-Event-ID is not the seq of an event")
        after = int(last_event_id)
    return EventSourceResponse(_stream(parts, session_id, after))


async def _stream(parts: Services, session_id: str, after: int) -> AsyncIterator[ServerSentEvent]:
    with parts.metrics.followers.track_inprogress():
        async for event in parts.events.follow(session_id, after):
            yield ServerSentEvent(
                id=str(event.seq), event=event.type.value, data=event.model_dump_json()
            )
