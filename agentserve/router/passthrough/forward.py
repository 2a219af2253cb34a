"""Forwards a request of the pass-through, and the answer back: bytes in, bytes out.

Nothing of them is parsed or changed, but for the headers that belong to one connection only and
those that the router writes itself; with API keys, the key is taken out of a request, and its
tenant's cache salt put in. Generations wait for a place first (see router.admission). A request
goes to another worker only when the first one died before any byte of its answer was sent on; it is
cancelled when its client leaves, whether it waits or runs. When the worker dies behind that, a
stream of events ends with an event that says so, after the last whole one; any other answer breaks
off.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import AbstractAsyncContextManager, AsyncExitStack, contextmanager
from urllib.parse import urlsplit

from starlette.requests import Request
from starlette.responses import Response

from agentserve.core import tracing
from agentserve.core.deadlines import Deadline
from agentserve.core.errors import NoWorker, WorkerLost
from agentserve.core.leaving import while_client_waits
from agentserve.core.logs import tell
from agentserve.core.tenants import cache_salt
from agentserve.core.workers import Worker
from agentserve.router.forwarding import Forwarded, Headers, Pieces
from agentserve.router.identity import without_key
from agentserve.router.passthrough.answer import Relayed, chained, streams_events, whole_events
from agentserve.router.passthrough.body import Body
from agentserve.router.passthrough.naming import session_name
from agentserve.router.passthrough.passage import Passage
from agentserve.router.passthrough.salting import salted
from agentserve.router.services import Services
from agentserve.router.workers.registry import WorkerRegistry

_HOP_BY_HOP = frozenset(
    (
        b"connection", b"keep-alive", b"proxy-authenticate", b"proxy-authorization",
        b"proxy-connection", b"te", b"trailer", b"transfer-encoding", b"upgrade",
    )
)  # fmt: skip
_WRITTEN_ANEW = frozenset((b"host", b"content-length", b"expect"))
"""Of a request; its body is here already, so that nobody need be asked for it."""
_OURS = frozenset((b"date", b"server", b"x-agentserve-worker"))
"""What the router says of itself in every answer, and not the worker again."""


async def forward(request: Request, parts: Services, timeout_s: float | None) -> Response:
    """The worker's answer, or its beginning; ``timeout_s`` is what the client gives it.

    Raises AgentServeError, ClientLeft.
    """
    tenant: str = request.state.tenant
    deadline = None if timeout_s is None else Deadline(timeout_s, "request")
    body = await Body.read(request.receive)
    async with AsyncExitStack() as place:
        passage = place.enter_context(Passage(parts.metrics))
        name = session_name(request.headers, body.whole)
        tell(session_id=name)
        if request.method == "POST":
            patience = deadline or Deadline(parts.config.worker_timeout_s, "request")
            waiting = place.enter_context(parts.admission.requests.enter(tenant))
            if waiting.waited:
                await while_client_waits(request.receive, waiting.ready(patience))
        worker = await parts.passing.choose(tenant, name, body)
        salt = cache_salt(tenant) if request.method == "POST" else ""
        sent = salted(body.whole(), salt) if salt else body.pieces
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


async def _send(
    parts: Services,
    worker: Worker,
    request: Request,
    body: Pieces,
    deadline: Deadline | None,
    passage: Passage,
) -> Relayed:
    """The worker's response, begun: its first bytes have arrived. Raises WorkerLost, TurnTimeout,
    ClientLeft before."""
    tell(worker_id=worker.id)
    query = request.scope["query_string"].decode("latin-1")
    target = request.scope["path"] + (f"?{query}" if query else "")
    headers = _request_headers(request, worker, sum(map(len, body)))
    async with AsyncExitStack() as stack:
        stack.enter_context(parts.registry.busy(worker.id))
        forwarded = parts.registry.forward(worker, request.method, target, headers, body)
        # The stack is ours: however the wait ends, the worker's response is closed.
        begun = _begun(stack, forwarded, parts.registry, worker, deadline)
        answer, first, chunks = await while_client_waits(request.receive, begun)
        passage.begun(answer.status_code)
        body_parts = chained(first, chunks)
        if streams_events(answer):
            body_parts = whole_events(body_parts, parts.registry, worker, request, passage)
        response = Relayed(passage.all_of(body_parts), status_code=answer.status_code)
        response.raw_headers = [
            *(
                (name.lower(), value)
                for name, value in _end_to_end(answer.headers)
                if name.lower() not in _OURS
            ),
            (b"x-agentserve-worker", worker.id.encode()),
        ]
        if answer.header(b"content-length") == b"%d" % len(first):
            response.whole = first
        response.held = stack.pop_all()
        response.passage = passage
        return response


def _request_headers(request: Request, worker: Worker, num_bytes: int) -> Headers:
    headers = [
        (name, value)
        for name, value in _end_to_end(request.headers.raw)
        if name not in _WRITTEN_ANEW
    ]
    if request.state.caller.key_id:
        headers = without_key(headers)
    if "traceparent" not in request.headers:  # a client's own goes on as it is
        headers += [(name.encode(), value.encode()) for name, value in tracing.headers().items()]
    headers.append((b"host", urlsplit(worker.url).netloc.encode()))
    headers.append((b"content-length", b"%d" % num_bytes))
    return headers


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


def _end_to_end(headers: list[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
    """The headers that are not about one connection, those that ``Connection`` names included."""
    named = {
        word.strip().lower()
        for name, value in headers
        if name.lower() == b"connection"
        for word in value.split(b",")
    }
    return [(n, v) for n, v in headers if n.lower() not in _HOP_BY_HOP | named]
