"""``/health``, ``/ready`` and ``/metrics``."""

from __future__ import annotations

import asyncio

from fastapi import APIRouter, Response
from prometheus_client import CONTENT_TYPE_LATEST

from agentserve import __version__
from agentserve.core.errors import StorageFailed
from agentserve.core.sessions import Health
from agentserve.router.api.deps import Parts, documented
from agentserve.router.services import Services

router = APIRouter(tags=["operations"])
STORE_PATIENCE_S = 2.0
"""Who reads metrics gives up sooner than a store that hangs."""


@router.get("/health", responses=documented())
async def health(parts: Parts) -> Health:
    """200 while the process lives."""
    return _health(parts, "ok")


@router.get(
    "/ready",
    responses=documented()
    | {503: {"description": "No worker is ready, or no program host.", "model": Health}},
)
async def ready(parts: Parts, response: Response) -> Health:
    """200 when turns can be served: a worker and a program host are ready."""
    if parts.hosts.ready and parts.registry.ready:
        return _health(parts, "ok")
    response.status_code = 503
    response.headers["Retry-After"] = "1"
    return _health(parts, "unavailable")


@router.get(
    "/metrics",
    response_class=Response,
    responses=documented()
    | {200: {"description": "Prometheus text format.", "content": {"text/plain": {}}}},
)
async def metrics(parts: Parts) -> Response:
    """Counters and gauges for Prometheus; names in `agentserve.router.metrics`. While the store
    fails, what it would have to tell is left out."""
    try:
        async with asyncio.timeout(STORE_PATIENCE_S):
            sessions, loads = await parts.store.counts(), await parts.store.pin_loads()
    except (StorageFailed, TimeoutError):
        sessions, loads = None, {}
    classes = (parts.admission.turns, parts.admission.requests)
    text = parts.metrics.render(sessions, parts.registry.snapshot(loads), classes)
    return Response(text, media_type=CONTENT_TYPE_LATEST)


def _health(parts: Services, status: str) -> Health:
    return Health(
        status=status,
        version=__version__,
        workers_ready=parts.registry.ready,
        programs=sorted(program.name for program in parts.hosts.known_programs.programs),
    )
