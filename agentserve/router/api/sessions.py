"""``/v1/sessions``: create, list, read, pause, resume, release, delete."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Body, Query, Response

from agentserve.core.bulk import BulkRelease, BulkReleased
from agentserve.core.logs import tell
from agentserve.core.sessions import (
    Session,
    SessionCreate,
    SessionPage,
    SessionStatus,
)
from agentserve.router.api.deps import OwnSession, Parts, TenantId, documented
from agentserve.router.api.examples import CREATE, SESSION, responds

router = APIRouter(prefix="/v1/sessions", tags=["sessions"])


@router.post(
    "",
    status_code=201,
    responses=documented(
        "unknown_program",
        "unknown_model",
        "unknown_session",
        "session_closed",
        "session_paused",
        "turn_in_progress",
        "no_worker",
        "host_lost",
        "storage_failed",
    )
    | responds(201, "The session, placed on a worker.", SESSION),
)
async def create_session(
    create: Annotated[SessionCreate, Body(openapi_examples=CREATE)],
    parts: Parts,
    tenant: TenantId,
    response: Response,
) -> Session:
    """Create a session of a registered program and pin it to a worker."""
    session = await parts.sessions.create(create, tenant)
    tell(session_id=session.id, worker_id=session.pin.worker_id if session.pin else None)
    response.headers["Location"] = f"/v1/sessions/{session.id}"
    return session


@router.get("", responses=documented())
async def list_sessions(
    parts: Parts,
    tenant: TenantId,
    status: SessionStatus | None = None,
    cursor: str | None = None,
    limit: Annotated[int, Query(ge=1, le=500)] = 50,
) -> SessionPage:
    """Sessions, newest first; pass `next_cursor` as `cursor` to go on."""
    return await parts.sessions.page(tenant, status, cursor, limit)


@router.post("/release", responses=documented("storage_failed"))
async def release_sessions(which: BulkRelease, tenant: TenantId, parts: Parts) -> BulkReleased:
    """Close many sessions: some by their ids, those with some metadata, or all of the tenant's.
    Turns that run are ended. Asking again goes on where a broken request stopped."""
    released = 0
    async for session in parts.sessions.release_some(tenant, which):
        parts.turns.close(session.id)
        released += 1
    unknown = [
        session_id
        for session_id in dict.fromkeys(which.ids or ())
        if not await parts.sessions.has(session_id, tenant)
    ]
    return BulkReleased(released=released, unknown=unknown)


@router.get(
    "/{session_id}",
    responses=documented("unknown_session") | responds(200, "The session.", SESSION),
)
async def get_session(session_id: OwnSession, parts: Parts) -> Session:
    """A session as it is now; closed ones can be read until they are deleted."""
    return (await parts.sessions.get(session_id)).session


@router.post("/{session_id}/release", responses=documented("unknown_session", "storage_failed"))
async def release_session(session_id: OwnSession, parts: Parts) -> Session:
    """Close a session. A turn that runs is ended. Releasing again changes nothing."""
    session = await parts.sessions.release(session_id)
    parts.turns.close(session_id)
    return session


@router.post(
    "/{session_id}/pause",
    responses=documented("unknown_session", "session_closed", "turn_in_progress", "storage_failed"),
)
async def pause_session(session_id: OwnSession, parts: Parts) -> Session:
    """Let an idle session rest: it takes no turns, does not expire for being idle, and counts for
    nothing on its worker. Its `timeout_s` goes on."""
    return await parts.sessions.pause(session_id)


@router.post(
    "/{session_id}/resume",
    responses=documented("unknown_session", "session_closed", "storage_failed"),
)
async def resume_session(session_id: OwnSession, parts: Parts) -> Session:
    """Go on with a paused session. What its worker has forgotten meanwhile is computed anew."""
    return await parts.sessions.resume(session_id)


@router.delete(
    "/{session_id}", status_code=204, responses=documented("unknown_session", "storage_failed")
)
async def delete_session(session_id: OwnSession, parts: Parts) -> None:
    """Release a session and forget it, its turns and its events."""
    await parts.sessions.release(session_id)
    parts.turns.close(session_id)
    await parts.sessions.delete(session_id)
