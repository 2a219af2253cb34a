"""A turn as a stream of events, which a client whose connection broke asks for again.

Each event has the id ``<session>:<epoch>:<n>``. The same turn asked again is the same turn: with
the last id that was seen as Last-Event-ID, what came before it is left out. Its end is always told,
also by a router that did not run it, which knows nothing else of it.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import AsyncExitStack
from typing import Any

from fastapi import Request
from sse_starlette import EventSourceResponse, ServerSentEvent
from starlette.types import Receive, Scope, Send

from agentserve.core.errors import AgentServeError, InvalidRequest
from agentserve.core.events import TurnEventType
from agentserve.core.leaving import while_client_waits
from agentserve.router.turns.asked import Told

HEARTBEAT_S = 10
"""Between comments that keep proxies from cutting a stream that has nothing to tell."""
FIRST_S = 5.0
"""How long the answer's status is held back for an error that comes before anything is told."""
DESCRIPTION: dict[str, Any] = {
    "text/event-stream": {
        "schema": {"type": "string"},
        "example": "id: s_Zk3b:4:1\nevent: started\n"
        'data: {"worker": {"id": "w-1f0c2a9b3d", …}, "attempt": 1, …}\n\n',
    }
}


def seen_of(last_event_id: str | None, session_id: str) -> tuple[int | None, int]:
    """Epoch and number of the last event that a client has seen. Raises InvalidRequest."""
    if last_event_id is None:
        return None, 0
    session, epoch, number = (last_event_id.rsplit(":", 2) + ["", ""])[:3]
    if session != session_id or not (_is_number(epoch) and _is_number(number)):
        raise InvalidRequest(
            f"Last-Event-ID is not the id of an event of a turn of session {session_id}",
            hint="send the id of the last event that was received, or none",
        )
    return int(epoch), int(number)


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) < 19


class _Response(EventSourceResponse):
    """A stream that lets go of its turn when it ends, however it ends, also before it begins."""

    held: AsyncExitStack

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async with self.held:
            await super().__call__(scope, receive, send)


class TurnStream:
    """The events of one turn. ``told`` is what Turns.follow tells, ``seen`` the number of the last
    event that need not be sent."""

    def __init__(
        self,
        request: Request,
        session_id: str,
        epoch: int,
        told: AsyncGenerator[Told, None],
        seen: int,
    ) -> None:
        self._request = request
        self._session_id = session_id
        self._epoch = epoch
        self._told = told
        self._seen = seen

    async def response(self) -> EventSourceResponse:
        """Raises what the turn raises, when that comes before anything is told."""
        first = asyncio.create_task(self._next())
        try:
            await while_client_waits(self._request.receive, _soon(first))
            if first.done():
                first.result()
        except BaseException:  # cancellation included: nobody would wait for it any more
            first.cancel()
            raise
        response = _Response(self._events(first), ping=HEARTBEAT_S)
        response.held = AsyncExitStack()
        response.held.push_async_callback(self._let_go, first)
        return response

    async def _next(self) -> Told:
        return await anext(self._told)

    async def _events(self, first: asyncio.Task[Told]) -> AsyncIterator[ServerSentEvent]:
        number = 0
        try:
            kind, data = await first
            while True:
                number += 1
                last = kind is TurnEventType.COMPLETED
                if last:
                    number = max(number, self._seen + 1)
                if number > self._seen:
                    yield self._event(number, kind, json.dumps(data))
                if last:
                    return
                kind, data = await anext(self._told)
        except AgentServeError as error:
            yield self._error(max(number, self._seen) + 1, error)

    async def _let_go(self, first: asyncio.Task[Told]) -> None:
        """Of the turn, which knows who waits for it."""
        first.cancel()
        await asyncio.wait({first})
        await self._told.aclose()

    def _event(
        self, number: int, kind: str, data: str, retry_after: float | None = None
    ) -> ServerSentEvent:
        return ServerSentEvent(
            id=f"{self._session_id}:{self._epoch}:{number}",
            event=kind,
            data=data,
            retry=None if retry_after is None else int(retry_after * 1000),
        )

    def _error(self, number: int, error: AgentServeError) -> ServerSentEvent:
        request_id = self._request.state.request_id
        body = error.body(session_id=self._session_id, request_id=request_id)
        return self._event(number, "error", json.dumps(body), error.retry_after)


async def _soon(first: asyncio.Task[Told]) -> None:
    await asyncio.wait({first}, timeout=FIRST_S)
