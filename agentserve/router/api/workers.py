"""``/v1/workers``: who serves, how it is doing, how one is added, emptied and removed."""

from __future__ import annotations

from collections.abc import AsyncIterator

from fastapi import APIRouter, Depends, Request, Response
from sse_starlette import EventSourceResponse, ServerSentEvent

from agentserve.core.config import worker_url
from agentserve.core.errors import WorkerInUse
from agentserve.core.tenants import Role
from agentserve.core.workers import (
    Drain,
    Worker,
    WorkerAdd,
    WorkerList,
    WorkerState,
    for_users,
)
from agentserve.router.api.deps import CallerOf, Parts, admin_only, documented
from agentserve.router.services import Services
from agentserve.router.workers.registry import worker_id as worker_id_of

router = APIRouter(prefix="/v1/workers", tags=["workers"])
_ADMIN = [Depends(admin_only)]


@router.get("", responses=documented())
async def list_workers(caller: CallerOf, parts: Parts) -> WorkerList:
    """All configured workers with their state, plugin report, pins and running turns. To a user's
    key only what they serve: addresses are the operator's, and load is made by all tenants."""
    workers = await parts.sessions.pins.workers()
    if caller.role is not Role.ADMIN:
        workers = [for_users(worker) for worker in workers]
    return WorkerList(workers=workers)


@router.post(
    "", status_code=201, dependencies=_ADMIN, responses=documented("forbidden", "storage_failed")
)
async def add_worker(add: WorkerAdd, request: Request, caller: CallerOf, parts: Parts) -> Worker:
    """Let the router, and all that share its store, use one more worker. Adding a known one
    changes nothing."""
    url = worker_url(add.url)
    new_id = worker_id_of(url)
    known = parts.registry.get(new_id)
    if known is None:
        await parts.audit.note(caller, "worker.add", url, request.state.request_id)
        await parts.discovery.add(url)
        known = Worker(id=new_id, url=url, state=WorkerState.STARTING, reason="not asked yet")
    return known


@router.delete(
    "/{worker_id}",
    status_code=204,
    dependencies=_ADMIN,
    responses=documented("forbidden", "unknown_worker", "worker_in_use", "storage_failed"),
)
async def remove_worker(
    worker_id: str, request: Request, caller: CallerOf, parts: Parts, force: bool = False
) -> None:
    """Forget a worker that was added by the API. One that still has sessions is to be drained
    first: with `force` it goes at once, and they are computed anew elsewhere with their next
    turns."""
    worker = parts.drains.known(worker_id)
    left = (await parts.store.pin_loads()).get(worker_id)
    if left is not None and left.sessions and not force:
        raise WorkerInUse(
            f"worker {worker_id} still has {left.sessions} sessions",
            hint=f"drain it first: POST /v1/workers/{worker_id}/drain; or pass force=true",
            details={"sessions": left.sessions},
        )
    await parts.audit.note(caller, "worker.remove", worker.url, request.state.request_id)
    await parts.discovery.remove(worker.url)
    await parts.store.drop_drain(worker_id)


@router.post(
    "/{worker_id}/drain",
    status_code=202,
    dependencies=_ADMIN,
    responses=documented("forbidden", "unknown_worker", "storage_failed"),
)
async def drain_worker(worker_id: str, request: Request, caller: CallerOf, parts: Parts) -> Worker:
    """Empty a worker: it takes no new sessions, and each of its idle ones is computed on another
    worker first and then moved there. Running turns finish. `drain.done` tells when it can be
    stopped; asking again changes nothing."""
    parts.drains.known(worker_id)
    await parts.audit.note(caller, "worker.drain", worker_id, request.state.request_id)
    return await parts.drains.start(worker_id)


@router.delete(
    "/{worker_id}/drain",
    dependencies=_ADMIN,
    responses=documented("forbidden", "unknown_worker", "storage_failed"),
)
async def undo_drain(worker_id: str, request: Request, caller: CallerOf, parts: Parts) -> Worker:
    """Let a worker take sessions again, whether its drain is done or not."""
    parts.drains.known(worker_id)
    await parts.audit.note(caller, "worker.undrain", worker_id, request.state.request_id)
    return await parts.drains.undo(worker_id)


@router.get(
    "/{worker_id}/drain",
    dependencies=_ADMIN,
    response_model=Drain | None,
    responses=documented("forbidden", "unknown_worker")
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
