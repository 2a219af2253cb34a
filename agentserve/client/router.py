"""The one HTTP client of the router.

    async with RouterClient("http://127.0.0.1:8300") as router:
        session = await router.create_session(SessionCreate(program="navigator", ...))
        result = await router.turn(session.id, png, epoch=session.epoch)

Every method raises the AgentServeError that the router answered with, rebuilt from its JSON body,
and Unavailable when the router cannot be reached. Requests carry the caller's trace, if it has one
(see core.tracing).
"""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Self

import httpx

from agentserve.client.forms import (
    OnDisconnect,
    error_of,
    form_of,
    given_of,
    milliseconds,
    turn_options,
)
from agentserve.core import tracing
from agentserve.core.bulk import BulkRelease, BulkReleased
from agentserve.core.config import KEEP_CONNECTION_S
from agentserve.core.errors import (
    BadScreenshot,
    Unavailable,
    UnknownBlob,
    from_body,
)
from agentserve.core.events import TERMINAL, Event, EventPage, TurnEvent, TurnEventType
from agentserve.core.hosting import ProgramList
from agentserve.core.pruning import Compression
from agentserve.core.sessions import (
    Health,
    Outcome,
    Session,
    SessionCreate,
    SessionPage,
    TurnRequest,
    TurnResult,
)
from agentserve.core.workers import Drain, Worker, WorkerList

if TYPE_CHECKING:
    from agentserve.vision.sent import SentScreens

TURN_TIMEOUT_S = 600.0
STREAM_TIMEOUT_S = 60.0
"""The longest silence of a turn's stream: the router sends a heartbeat every ten seconds."""
_Fields = dict[str, str]


class RouterClient:
    """A client of one router. ``transport`` replaces the network in tests (an ASGI app).

    ``patches``: a session's later screenshots are sent as what has changed since the one before,
    when that is smaller and the router still has that one. It takes pixels in this process.
    """

    def __init__(
        self,
        url: str,
        *,
        api_key: str | None = None,
        timeout_s: float = 30.0,
        transport: httpx.AsyncBaseTransport | None = None,
        patches: bool = False,
    ) -> None:
        self.url = url.rstrip("/")
        self._http = httpx.AsyncClient(
            base_url=self.url,
            timeout=timeout_s,
            headers={"authorization": f"Bearer {api_key}"} if api_key else None,
            limits=httpx.Limits(max_connections=None, keepalive_expiry=KEEP_CONNECTION_S),
            transport=transport,
        )
        self._sent: SentScreens | None = None
        if patches:
            from agentserve.vision.sent import SentScreens  # numpy and Pillow, only for this

            self._sent = SentScreens()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        await self._http.aclose()

    # sessions

    async def create_session(self, create: SessionCreate) -> Session:
        answer = await self._call(
            "POST", "/v1/sessions", json=create.model_dump(mode="json", exclude_none=True)
        )
        return Session.model_validate(answer.json())

    async def session(self, session_id: str) -> Session:
        return Session.model_validate(
            (await self._call("GET", f"/v1/sessions/{session_id}")).json()
        )

    async def sessions(
        self, *, status: str | None = None, cursor: str | None = None, limit: int = 50
    ) -> SessionPage:
        params = {"status": status, "cursor": cursor, "limit": limit}
        answer = await self._call(
            "GET", "/v1/sessions", params={k: v for k, v in params.items() if v is not None}
        )
        return SessionPage.model_validate(answer.json())

    async def turn(
        self,
        session_id: str,
        screenshot: bytes,
        *,
        instruction: str | None = None,
        epoch: int | None = None,
        outcome: Outcome | None = None,
        compression: Compression | None = None,
        resend_thin: bool = False,
        timeout_s: float | None = None,
        on_disconnect: OnDisconnect = "continue",
    ) -> TurnResult:
        """Send a screenshot (PNG, JPEG or WebP bytes), get the action. Idempotent by epoch.

        ``compression``: instead of the session's; ``resend_thin``: send again what too little was
        left of; ``timeout_s``: when the router gives the turn up; ``on_disconnect``: what becomes
        of it when this call is cancelled.
        """
        given = given_of(instruction, epoch, outcome, compression, resend_thin)
        options = turn_options(timeout_s, on_disconnect)
        if self._sent is None:
            return await self._whole_turn(session_id, screenshot, given, options)
        outgoing = await asyncio.to_thread(self._sent.outgoing, session_id, screenshot)
        result = None
        if outgoing.patch is not None:
            with suppress(UnknownBlob, BadScreenshot):  # then it is sent whole
                request = TurnRequest(screenshot=outgoing.patch, **given)
                result = await self._turn_json(session_id, request, options)
        if result is None:
            result = await self._whole_turn(session_id, screenshot, given, options)
        self._sent.arrived(session_id, outgoing, result.screenshot)
        return result

    async def _whole_turn(
        self,
        session_id: str,
        screenshot: bytes,
        given: dict[str, Any],
        options: dict[str, Any],
    ) -> TurnResult:
        answer = await self._call(
            "POST",
            f"/v1/sessions/{session_id}/turns",
            data=form_of(given),
            files={"screenshot": ("screen", screenshot, "application/octet-stream")},
            timeout=TURN_TIMEOUT_S,
            **options,
        )
        return TurnResult.model_validate(answer.json())

    async def turn_stream(
        self,
        session_id: str,
        screenshot: bytes,
        *,
        epoch: int,
        instruction: str | None = None,
        outcome: Outcome | None = None,
        compression: Compression | None = None,
        resend_thin: bool = False,
        timeout_s: float | None = None,
        on_disconnect: OnDisconnect = "continue",
        last_event_id: str | None = None,
    ) -> AsyncIterator[TurnEvent]:
        """As ``turn``, telling how it goes; the last event's ``result`` is what it came to.

        Raises what ``turn`` raises; Unavailable also when the stream breaks. The same call with the
        last event's id goes on with it.
        """
        options = turn_options(timeout_s, on_disconnect)
        options["headers"]["accept"] = "text/event-stream"
        if last_event_id is not None:
            options["headers"]["last-event-id"] = last_event_id
        path = f"/v1/sessions/{session_id}/turns"
        request = self._http.build_request(
            "POST",
            path,
            data=form_of(given_of(instruction, epoch, outcome, compression, resend_thin)),
            files={"screenshot": ("screen", screenshot, "application/octet-stream")},
            timeout=STREAM_TIMEOUT_S,
            **options,
        )
        async for event in self._server_sent(request, "call turn_stream again with last_event_id"):
            data = json.loads(event["data"])
            if event["event"] == "error":
                raise from_body(data, retry_after=milliseconds(event.get("retry", "")))
            told = TurnEvent(id=event["id"], type=TurnEventType(event["event"]), data=data)
            yield told
            if told.type is TurnEventType.COMPLETED:
                return
        raise Unavailable(f"the stream of {path} ended early", hint="ask again with the same epoch")

    async def turn_json(self, session_id: str, request: TurnRequest) -> TurnResult:
        """The same with the screenshot in base64, as the hash of a blob, or as a patch."""
        return await self._turn_json(session_id, request, {})

    async def _turn_json(
        self, session_id: str, request: TurnRequest, options: dict[str, Any]
    ) -> TurnResult:
        answer = await self._call(
            "POST",
            f"/v1/sessions/{session_id}/turns",
            json=request.model_dump(mode="json", exclude_none=True),
            timeout=TURN_TIMEOUT_S,
            **options,
        )
        return TurnResult.model_validate(answer.json())

    async def pause(self, session_id: str) -> Session:
        answer = await self._call("POST", f"/v1/sessions/{session_id}/pause")
        return Session.model_validate(answer.json())

    async def resume(self, session_id: str) -> Session:
        answer = await self._call("POST", f"/v1/sessions/{session_id}/resume")
        return Session.model_validate(answer.json())

    async def release_some(self, which: BulkRelease) -> BulkReleased:
        answer = await self._call(
            "POST", "/v1/sessions/release", json=which.model_dump(mode="json", exclude_none=True)
        )
        return BulkReleased.model_validate(answer.json())

    async def release(self, session_id: str) -> Session:
        self._forget(session_id)
        answer = await self._call("POST", f"/v1/sessions/{session_id}/release")
        return Session.model_validate(answer.json())

    async def delete(self, session_id: str) -> None:
        self._forget(session_id)
        await self._call("DELETE", f"/v1/sessions/{session_id}")

    # events

    async def events(self, session_id: str, *, after: int = 0, limit: int = 500) -> EventPage:
        answer = await self._call(
            "GET", f"/v1/sessions/{session_id}/events", params={"after": after, "limit": limit}
        )
        return EventPage.model_validate(answer.json())

    async def follow(self, session_id: str, *, after: int = 0) -> AsyncIterator[Event]:
        """Events as they happen, until the session is released or expires."""
        path = f"/v1/sessions/{session_id}/events"
        hint = "call follow again with after = the last event's seq"
        async for data in self._stream(path, {"after": after}, hint):
            event = Event.model_validate_json(data)
            yield event
            if event.type in TERMINAL:
                return

    # blobs, workers, programs

    async def put_blob(self, data: bytes) -> str:
        """Store bytes under their SHA-256 and return it; already stored bytes are not sent."""
        sha = hashlib.sha256(data).hexdigest()
        if not await self.has_blob(sha):
            await self._call("PUT", f"/v1/blobs/{sha}", content=data)
        return sha

    async def has_blob(self, sha: str) -> bool:
        request = self._http.build_request("HEAD", f"/v1/blobs/{sha}")
        try:
            response = await self._http.send(request)
        except httpx.TransportError as error:
            raise self._unreachable(error) from error
        return response.status_code == 200

    async def workers(self) -> WorkerList:
        return WorkerList.model_validate((await self._call("GET", "/v1/workers")).json())

    async def add_worker(self, url: str) -> Worker:
        answer = await self._call("POST", "/v1/workers", json={"url": url})
        return Worker.model_validate(answer.json())

    async def remove_worker(self, worker_id: str, *, force: bool = False) -> None:
        await self._call("DELETE", f"/v1/workers/{worker_id}", params={"force": force})

    async def drain(self, worker_id: str) -> Worker:
        """Begin to empty a worker."""
        answer = await self._call("POST", f"/v1/workers/{worker_id}/drain")
        return Worker.model_validate(answer.json())

    async def undrain(self, worker_id: str) -> Worker:
        """Let a worker take sessions again."""
        answer = await self._call("DELETE", f"/v1/workers/{worker_id}/drain")
        return Worker.model_validate(answer.json())

    async def follow_drain(self, worker_id: str) -> AsyncIterator[Drain]:
        """How far a drain is, at each change, until it is done or undone."""
        path = f"/v1/workers/{worker_id}/drain"
        async for data in self._stream(path, {}, "call follow_drain again"):
            yield Drain.model_validate_json(data)

    async def programs(self) -> ProgramList:
        return ProgramList.model_validate((await self._call("GET", "/v1/programs")).json())

    async def metrics(self) -> str:
        """What the router tells Prometheus."""
        return (await self._call("GET", "/metrics")).text

    async def ready(self) -> Health:
        """The router's readiness; Health.status is ``unavailable`` while it cannot serve turns."""
        try:
            response = await self._http.get("/ready")
        except httpx.TransportError as error:
            raise self._unreachable(error) from error
        return Health.model_validate(response.json())

    # plumbing

    async def _stream(self, path: str, params: dict[str, Any], hint: str) -> AsyncIterator[str]:
        """The data of server-sent events. ``hint``: what to do when the stream breaks."""
        request = self._http.build_request(
            "GET", path, params=params, headers={"accept": "text/event-stream"}, timeout=None
        )
        async for event in self._server_sent(request, hint):
            yield event["data"]

    async def _server_sent(self, request: httpx.Request, hint: str) -> AsyncIterator[_Fields]:
        """Server-sent events, by field."""
        response = await self._send(request, stream=True)
        event: _Fields = {}
        try:
            async for line in response.aiter_lines():
                name, _, value = line.partition(":")
                if name:
                    event[name] = value.removeprefix(" ")
                elif not line and "data" in event:
                    yield event
                    event = {}
        except httpx.TransportError as error:
            path = request.url.path
            raise Unavailable(f"the stream of {path} broke: {error}", hint=hint) from error
        finally:
            await response.aclose()

    def _forget(self, session_id: str) -> None:
        if self._sent is not None:
            self._sent.forget(session_id)

    async def _call(self, method: str, path: str, **options: Any) -> httpx.Response:
        return await self._send(self._http.build_request(method, path, **options))

    async def _send(self, request: httpx.Request, *, stream: bool = False) -> httpx.Response:
        http = {"http.request.method": request.method, "server.address": request.url.host}
        with tracing.span(request.method, "client", http=http) as current:
            for name, value in tracing.headers().items():
                request.headers.setdefault(name, value)
            response = await self._answer(request, stream=stream)
            current.set_attribute("http.response.status_code", response.status_code)
            return response

    async def _answer(self, request: httpx.Request, *, stream: bool) -> httpx.Response:
        try:
            response = await self._http.send(request, stream=stream)
        except httpx.TimeoutException as error:
            raise Unavailable(
                f"the router at {self.url} did not answer {request.method} {request.url.path} "
                f"in time ({type(error).__name__})",
                hint="a turn may be asked again with the same epoch: it is not run twice",
            ) from error
        except httpx.TransportError as error:
            raise self._unreachable(error) from error
        if response.is_success:
            return response
        await response.aread()
        raise error_of(response)

    def _unreachable(self, error: httpx.TransportError) -> Unavailable:
        return Unavailable(
            f"cannot reach the router at {self.url}: {error or type(error).__name__}",
            hint="start one: `agentserve demo --keep-alive`, or `agentserve serve --worker URL`; "
            "`agentserve run` and `replay` start their own with --local",
        )
