"""``/v1/sessions``: create, list, read, release, delete."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Body, Query, Response

from agentserve.core.logs import tell
from agentserve.core.sessions import Session, SessionCreate, SessionPage, SessionStatus
from agentserve.router.api.deps import Parts, documented
from agentserve.router.api.examples import CREATE, SESSION, responds

router = APIRouter(prefix="/v1/sessions", tags=["sessions"])


@router.post(
    "",
    status_code=201,
    responses=documented("unknown_program", "no_worker", "host_lost", "storage_failed")
    | responds(201, "The session, placed on a worker.", SESSION),
)
async def create_session(
    create: Annotated[SessionCreate, Body(openapi_examples=CREATE)],
    parts: Parts,
    response: Response,
) -> Session:
    """Create a session of a registered program and pin it to a worker."""
    session = await parts.sessions.create(create)
    tell(session_id=session.id, worker_id=session.pin.worker_id if session.pin else None)
    response.headers["Location"] = f"/v1/sessions/{session.id}"
    return session


@router.get("", responses=documented())
async def list_sessions(
    parts: Parts,
    status: SessionStatus | None = None,
    cursor: str | None = None,
    limit: Annotated[int, Query(ge=1, le=500)] = 50,
) -> SessionPage:
    """Sessions, newest first; pass `next_cursor` as `cursor` to go on."""
    return await parts.sessions.page(status, cursor, limit)


@router.get(
    "/{session_id}",
    responses=documented("unknown_session") | responds(200, "The session.", SESSION),
)
async def get_session(session_id: str, parts: Parts) -> Session:
    """A session as it is now; closed ones can be read until they are deleted."""
    return (await parts.sessions.get(session_id)).session


@router.post("/{session_id}/release", responses=documented("unknown_session", "storage_failed"))
async def release_session(session_id: str, parts: Parts) -> Session:
    """Close a session. A turn that runs is ended. Releasing again changes nothing."""
    session = await parts.sessions.release(session_id)
    parts.turns.close(session_id)
    return session


@router.delete(
    "/{session_id}", status_code=204, responses=documented("unknown_session", "storage_failed")
)
async def delete_session(session_id: str, parts: Parts) -> None:
    """Release a session and forget it, its turns and its events."""
    await parts.sessions.release(session_id)
    parts.turns.close(session_id)
    await parts.sessions.delete(session_id)
