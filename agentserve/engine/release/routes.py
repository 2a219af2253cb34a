"""In the HTTP server's process: ``POST /agentserve/release``."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any

from fastapi import APIRouter

from agentserve.core.workers import KvRelease, KvReleased

Send = Callable[[dict[str, Any]], Awaitable[list[dict[str, Any]]]]
"""A message to the schedulers; one answer of each."""
PATIENCE_S = 5.0
"""For requests of sessions that are over: they were aborted, and end with the next step."""
_PAUSE_S = 0.05


async def release(asked: KvRelease, send: Send, patience_s: float = PATIENCE_S) -> KvReleased:
    """Free what can be freed now, and of sessions whose requests still run, when these end."""
    until = time.monotonic() + patience_s
    freed = 0
    left = asked.sessions
    while True:
        body = KvRelease(sessions=left).model_dump()
        answers = [KvReleased.model_validate(answer) for answer in await send(body)]
        freed += sum(answer.freed_tokens for answer in answers)
        running = {owner for answer in answers for owner in answer.running}
        left = [session for session in left if session.id in running]
        if not left or time.monotonic() > until:
            return KvReleased(freed_tokens=freed, running=[session.id for session in left])
        await asyncio.sleep(_PAUSE_S)


def release_routes(send: Send) -> APIRouter:
    router = APIRouter(prefix="/agentserve", tags=["agentserve"])

    @router.post("/release")
    async def release_sessions(asked: KvRelease) -> KvReleased:
        return await release(asked, send)

    return router
