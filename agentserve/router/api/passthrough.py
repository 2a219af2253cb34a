"""SGLang's own API through the router: bytes in, bytes out, on the worker that fits.

Nothing of a request or a response is parsed or changed, but for the headers that belong to one
connection only and those that the router writes itself; with API keys, the key is taken out of a
request, and its tenant's cache salt put in. Generations wait for a place first (see
router.admission). A request goes to another worker only when the first one died before any byte of
its answer was sent on; it is cancelled when its client leaves, whether it waits or runs. When the
worker dies behind that, a stream of events ends with an event that says so, after the last whole
one; any other answer breaks off.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import AbstractAsyncContextManager, AsyncExitStack, contextmanager
from typing import Any
from urllib.parse import urlsplit

from fastapi import APIRouter, Header, Request, Response
from fastapi.routing import APIRoute
from starlette.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from agentserve.core import tracing
from agentserve.core.deadlines import Deadline
from agentserve.core.errors import NoWorker, TurnTimeout, WorkerLost
from agentserve.core.leaving import while_client_waits
from agentserve.core.logs import tell
from agentserve.core.tenants import cache_salt
from agentserve.core.workers import Worker
from agentserve.router.api.deps import Parts, TimeoutS, admin_only, documented, timeout_of
from agentserve.router.forwarding import Forwarded
from agentserve.router.identity import without_key
from agentserve.router.naming import session_name
from agentserve.router.passage import Passage
from agentserve.router.salting import salted
from agentserve.router.services import Services
from agentserve.router.workers import WorkerRegistry

log = logging.getLogger(__name__)

_HOP_BY_HOP = frozenset(
    (
        b"connection", b"keep-alive", b"proxy-authenticate", b"proxy-authorization",
        b"proxy-connection", b"te", b"trailer", b"transfer-encoding", b"upgrade",
    )
)  # fmt: skip
_OURS = frozenset((b"date", b"server", b"x-agentserve-worker"))
"""What the router says of itself in every answer, and not the worker again."""
_ROUTES = (
    ("POST", "/generate", "SGLang's native generation."),
    ("POST", "/v1/chat/completions", "OpenAI chat completions."),
    ("GET", "/v1/models", "The served models."),
    ("GET", "/model_info", "SGLang's model information."),
    ("GET", "/get_model_info", "The same under its older name, which SGLang's frontend asks."),
    ("GET", "/server_info", "SGLang's server information."),
)
_ADMIN = ("/server_info",)
"""For admins: it tells how the operator runs the worker."""
_ANY_BODY = {
    "requestBody": {
        "required": True,
        "content": {"application/json": {"schema": {"type": "object"}}},
    }
}


async def forward(
    request: Request,
    parts: Parts,
    x_session_id: str | None = Header(
        None,
        description="A session's id, or any name: its requests stay on one worker. Without it, the "
        "header `X-SMG-Routing-Key`, or `prompt_cache_key` or `user` in the body.",
    ),
    timeout_s: TimeoutS = None,
) -> Response:
    """Forward a request to the worker of its session and stream the answer back."""
    tenant: str = request.state.tenant
    deadline = None if timeout_s is None else Deadline(timeout_s, "request")
    body = await request.body()
    async with AsyncExitStack() as place:
        passage = place.enter_context(Passage(parts.metrics))
        name = session_name(request.headers, body)
        tell(session_id=name)
        if request.method == "POST":
            patience = deadline or Deadline(parts.config.worker_timeout_s, "request")
            waiting = place.enter_context(parts.admission.requests.enter(tenant))
            if waiting.waited:
                await while_client_waits(request.receive, waiting.ready(patience))
        worker = await parts.passing.choose(tenant, name, body)
        sent = salted(body, cache_salt(tenant)) if request.method == "POST" else body
        try:
            response = await _send(parts, worker, request, sent, deadline, passage)
        except WorkerLost as error:
            await parts.registry.check(worker.id)
            try:
                other = await parts.passing.choose(tenant, name, body, frozenset({worker.id}))
            except NoWorker:
                raise error from None
            response = await _send(parts, other, request, sent, deadline, passage)
        response.place = place.pop_all()
        return response


class _Route(APIRoute):
    """Calls ``forward`` itself: FastAPI takes longer to find its parameters than it to run."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        async def handle(request: Request) -> Response:
            if self.path in _ADMIN:
                await admin_only(request.state.caller)
            services = request.app.state.services
            return await forward(request, services, timeout_s=timeout_of(request))

        return handle


async def _send(
    parts: Services,
    worker: Worker,
    request: Request,
    body: bytes,
    deadline: Deadline | None,
    passage: Passage,
) -> _Relayed:
    """The worker's response, begun: its first bytes have arrived. Raises WorkerLost, TurnTimeout,
    ClientLeft before."""
    tell(worker_id=worker.id)
    query = request.scope["query_string"].decode("latin-1")
    target = request.scope["path"] + (f"?{query}" if query else "")
    headers = [
        (name, value)
        for name, value in _end_to_end(request.headers.raw)
        if name.lower() not in (b"host", b"content-length")
    ]
    if request.state.caller.key_id:
        headers = without_key(headers)
    if "traceparent" not in request.headers:  # a client's own goes on as it is
        headers += [(name.encode(), value.encode()) for name, value in tracing.headers().items()]
    headers.append((b"host", urlsplit(worker.url).netloc.encode()))
    headers.append((b"content-length", str(len(body)).encode()))
    async with AsyncExitStack() as stack:
        stack.enter_context(parts.registry.busy(worker.id))
        forwarded = parts.registry.forward(worker, request.method, target, headers, body)
        # The stack is ours: however the wait ends, the worker's response is closed.
        begun = _begun(stack, forwarded, parts.registry, worker, deadline)
        answer, first, chunks = await while_client_waits(request.receive, begun)
        passage.begun(answer.status_code)
        body_parts = _chained(first, chunks)
        if _streams_events(answer):
            body_parts = _whole_events(body_parts, parts.registry, worker, request, passage)
        response = _Relayed(passage.all_of(body_parts), status_code=answer.status_code)
        response.raw_headers = [
            *(
                (name.lower(), value)
                for name, value in _end_to_end(answer.headers.raw)
                if name.lower() not in _OURS
            ),
            (b"x-agentserve-worker", worker.id.encode()),
        ]
        if answer.headers.get("content-length") == str(len(first)):
            response.whole = first
        response.held = stack.pop_all()
        response.passage = passage
        return response


async def _begun(
    stack: AsyncExitStack,
    forwarded: AbstractAsyncContextManager[Forwarded],
    registry: WorkerRegistry,
    worker: Worker,
    deadline: Deadline | None,
) -> tuple[Forwarded, bytes, AsyncIterator[bytes]]:
    """The response, entered into ``stack``, with its first bytes and what follows them."""
    with _late(deadline):
        async with asyncio.timeout(deadline and deadline.remaining()):
            answer = await stack.enter_async_context(forwarded)
    chunks = registry.chunks(worker, answer)
    if deadline is not None:
        chunks = _in_time(chunks, deadline)
    return answer, await anext(chunks, b""), chunks


async def _in_time(chunks: AsyncIterator[bytes], deadline: Deadline) -> AsyncIterator[bytes]:
    end = object()
    while True:
        with _late(deadline):
            async with asyncio.timeout(deadline.remaining()):
                chunk = await anext(chunks, end)
        if not isinstance(chunk, bytes):
            return
        yield chunk


@contextmanager
def _late(deadline: Deadline | None) -> Iterator[None]:
    try:
        yield
    except TimeoutError:
        assert deadline is not None
        raise deadline.exceeded() from None


class _Relayed(StreamingResponse):
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


async def _chained(first: bytes, chunks: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    yield first
    async for chunk in chunks:
        yield chunk


def _streams_events(answer: Forwarded) -> bool:
    """Whether the body is a stream of events that can be read as it is."""
    kind = answer.headers.get("content-type", "").partition(";")[0].strip().lower()
    return kind == "text/event-stream" and "content-encoding" not in answer.headers


async def _whole_events(
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


def _end_to_end(headers: list[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
    """The headers that are not about one connection, those that ``Connection`` names included."""
    named = {
        word.strip().lower()
        for name, value in headers
        if name.lower() == b"connection"
        for word in value.split(b",")
    }
    return [(n, v) for n, v in headers if n.lower() not in _HOP_BY_HOP | named]


_ERRORS = (
    "forbidden",
    "session_closed",
    "session_paused",
    "no_worker",
    "worker_lost",
    "turn_timeout",
)
_LIMITS = ("over_capacity", "overloaded")
router = APIRouter(tags=["pass-through"], route_class=_Route)
for _method, _path, _summary in _ROUTES:
    router.add_api_route(
        _path,
        forward,
        methods=[_method],
        summary=_summary,
        name=f"{_method.lower()}{_path.replace('/', '_')}",
        response_class=Response,
        responses=documented(*_ERRORS, *(_LIMITS if _method == "POST" else ()))
        | {200: {"description": "The worker's answer, unchanged."}}
        | {"4XX": {"description": "A refusal by the worker, unchanged."}},
        openapi_extra=_ANY_BODY if _method == "POST" else None,
    )
