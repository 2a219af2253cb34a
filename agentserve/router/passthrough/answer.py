"""A worker's answer on its way to the client."""

from __future__ import annotations

import json
import logging
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack

from starlette.requests import Request
from starlette.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from agentserve.core.errors import TurnTimeout, WorkerLost
from agentserve.core.workers import Worker
from agentserve.router.forwarding import Forwarded
from agentserve.router.passthrough.passage import Passage
from agentserve.router.workers.registry import WorkerRegistry

log = logging.getLogger(__name__)


class Relayed(StreamingResponse):
    """A response that lets go of the worker's when it ends, however it ends, and then of its place
    among those that run."""

    held: AsyncExitStack
    place: AsyncExitStack
    passage: Passage
    whole: bytes | None = None
    """The body when it is all there already: then nobody need watch whether the client leaves."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async with self.place, self.held:
            if self.whole is None:
                await super().__call__(scope, receive, send)
                return
            start = {"status": self.status_code, "headers": self.raw_headers}
            await send({"type": "http.response.start", **start})
            await send({"type": "http.response.body", "body": self.whole})
            self.passage.sent()


async def chained(first: bytes, chunks: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """What has come, and what will."""
    yield first
    async for chunk in chunks:
        yield chunk


def streams_events(answer: Forwarded) -> bool:
    """Whether the body is a stream of events that can be read as it is."""
    kind = (answer.header(b"content-type") or b"").partition(b";")[0].strip().lower()
    return kind == b"text/event-stream" and answer.header(b"content-encoding") is None


async def whole_events(
    chunks: AsyncIterator[bytes],
    registry: WorkerRegistry,
    worker: Worker,
    request: Request,
    passage: Passage,
) -> AsyncIterator[bytes]:
    """The same bytes, cut between events, so that one of ours can follow when the worker dies."""
    rest = b""
    try:
        async for chunk in chunks:
            rest += chunk
            if end := _last_end(rest):
                yield rest[:end]
                rest = rest[end:]
    except (WorkerLost, TurnTimeout) as error:
        log.warning("a stream of events broke off: %s", error)
        passage.broke_off(error)
        await registry.check(worker.id)
        body = error.body(
            session_id=request.headers.get("x-session-id"), request_id=request.state.request_id
        )
        # as OpenAI's clients expect it: they raise what is under "error"
        yield f"data: {json.dumps({'error': body})}\n\n".encode()
        return
    if rest:
        yield rest


def _last_end(text: bytes) -> int:
    """Behind the last blank line; 0 when there is none."""
    ends = (text.rfind(mark) + len(mark) for mark in (b"\n\n", b"\r\n\r\n") if mark in text)
    return max(ends, default=0)
