"""``/v1/workers``: who serves, how it is doing, and how it is emptied."""

from __future__ import annotations

from collections.abc import AsyncIterator

from fastapi import APIRouter, Request, Response
from sse_starlette import EventSourceResponse, ServerSentEvent

from agentserve.core.workers import Drain, Worker, WorkerList
from agentserve.router.api.deps import Parts, documented
from agentserve.router.services import Services

router = APIRouter(prefix="/v1/workers", tags=["workers"])


@router.get("", responses=documented())
async def list_workers(parts: Parts) -> WorkerList:
    """All configured workers with their state, plugin report, pins and running turns."""
    return WorkerList(workers=await parts.sessions.pins.workers())


@router.post(
    "/{worker_id}/drain", status_code=202, responses=documented("unknown_worker", "storage_failed")
)
async def drain_worker(worker_id: str, parts: Parts) -> Worker:
    """Empty a worker: it takes no new sessions, and each of its idle ones is computed on another
    worker first and then moved there. Running turns finish. `drain.done` tells when it can be
    stopped; asking again changes nothing."""
    return await parts.drains.start(worker_id)


@router.delete("/{worker_id}/drain", responses=documented("unknown_worker", "storage_failed"))
async def undo_drain(worker_id: str, parts: Parts) -> Worker:
    """Let a worker take sessions again, whether its drain is done or not."""
    return await parts.drains.undo(worker_id)


@router.get(
    "/{worker_id}/drain",
    response_model=Drain | None,
    responses=documented("unknown_worker")
    | {
        200: {
            "description": "How far the drain is, null without one; with `Accept: "
            "text/event-stream`, each change until it is done or undone.",
            "content": {
                "text/event-stream": {
                    "schema": {"type": "string"},
                    "example": 'event: drain\ndata: {"left": 3, …}\n\n',
                }
            },
        }
    },
)
async def drain_progress(worker_id: str, request: Request, parts: Parts) -> Response | Drain | None:
    """How far a worker's drain is."""
    worker = parts.drains.known(worker_id)
    if "text/event-stream" not in request.headers.get("accept", ""):
        return worker.drain
    return EventSourceResponse(_stream(parts, worker_id))


async def _stream(parts: Services, worker_id: str) -> AsyncIterator[ServerSentEvent]:
    with parts.metrics.followers.track_inprogress():
        async for drain in parts.drains.follow(worker_id):
            yield ServerSentEvent(event="drain", data=drain.model_dump_json())
