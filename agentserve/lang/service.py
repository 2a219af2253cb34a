"""The program host's HTTP service: ``GET /programs``, ``POST /turns`` and ``POST /warmings``."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import asynccontextmanager
from contextvars import copy_context
from typing import TypeVar

from pydantic import ValidationError
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from agentserve.core.deadlines import Deadline
from agentserve.core.errors import AgentServeError, InvalidRequest
from agentserve.core.hosting import HostTurn, HostWarming
from agentserve.core.leaving import ClientLeft, while_client_waits
from agentserve.core.logs import tell
from agentserve.core.model import Wire
from agentserve.core.tracing import parent_in, span
from agentserve.lang.turns import TurnRunner

log = logging.getLogger(__name__)
T = TypeVar("T")
Ask = TypeVar("Ask", HostTurn, HostWarming)

GRACE_S = 1.0
"""A turn that is late gets this long to say so itself, with the better message."""
CLIENT_LEFT = 499
"""The status of an answer to nobody, as proxies log it."""


class TurnPool:
    """Runs turns in threads, with a limit on each. A thread cannot be stopped: one whose program
    ignores its deadline is given up, and when all are, ``on_stuck`` is called."""

    def __init__(self, threads: int, on_stuck: Callable[[], None]) -> None:
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="turn")
        self._free = threads
        self._on_stuck = on_stuck

    async def run(self, work: Callable[[Ask, Deadline], T], ask: Ask) -> T:
        """Raises what ``work`` raises; TurnTimeout also for a program that does not stop. When
        cancelled, the call that it waits for is broken off."""
        deadline = Deadline(ask.timeout_s)
        job = self._pool.submit(copy_context().run, work, ask, deadline)
        done = asyncio.wrap_future(job)
        try:
            async with asyncio.timeout(ask.timeout_s + GRACE_S):
                return await asyncio.shield(done)
        except TimeoutError:
            if not job.cancel():
                self._give_up(job, ask.session_id)
            raise deadline.exceeded() from None
        except asyncio.CancelledError:
            deadline.end()
            if not job.cancel():
                await asyncio.wait({done}, timeout=GRACE_S)
            if not done.done():
                self._give_up(job, ask.session_id)
            raise

    def close(self) -> None:
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _give_up(self, job: Future, session_id: str) -> None:
        log.error("a program in session %s does not stop", session_id)
        loop = asyncio.get_running_loop()
        self._free -= 1
        job.add_done_callback(lambda _: loop.call_soon_threadsafe(self._take_back))
        if self._free == 0:
            self._on_stuck()

    def _take_back(self) -> None:
        self._free += 1


def create_app(runner: TurnRunner, *, threads: int, on_stuck: Callable[[], None]) -> Starlette:
    """The service over ``runner``; see TurnPool for ``on_stuck``."""
    pool = TurnPool(threads, on_stuck)

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        yield
        pool.close()

    async def programs(_: Request) -> Response:
        return _json(runner.registry.listing().model_dump_json())

    async def answered(
        request: Request, form: type[Ask], work: Callable[[Ask, Deadline], Wire]
    ) -> Response:
        try:
            ask = form.model_validate_json(await request.body())
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            where = ".".join(map(str, first["loc"]))
            return _failure(InvalidRequest(f"{form.__name__}: {where}: {first['msg']}"))
        tell(request_id=ask.request_id, session_id=ask.session_id, worker_id=ask.worker_id)
        if isinstance(ask, HostTurn):
            tell(turn=ask.turn)
        about = {"session_id": ask.session_id, "request_id": ask.request_id}
        try:
            with span(request.url.path, "server", parent=parent_in(request.headers), **about):
                answer = await while_client_waits(request.receive, pool.run(work, ask))
            return _json(answer.model_dump_json())
        except ClientLeft:
            return Response(status_code=CLIENT_LEFT)
        except AgentServeError as error:
            return _failure(error, session_id=ask.session_id, request_id=ask.request_id)

    async def turns(request: Request) -> Response:
        return await answered(request, HostTurn, runner.run)

    async def warmings(request: Request) -> Response:
        return await answered(request, HostWarming, runner.warm)

    return Starlette(
        routes=[
            Route("/programs", programs, methods=["GET"]),
            Route("/turns", turns, methods=["POST"]),
            Route("/warmings", warmings, methods=["POST"]),
        ],
        exception_handlers={HTTPException: _not_found, Exception: _unexpected},
        lifespan=lifespan,
    )


def _json(text: str) -> Response:
    return Response(text, media_type="application/json")


def _failure(
    error: AgentServeError,
    *,
    session_id: str | None = None,
    request_id: str | None = None,
    status: int | None = None,
) -> JSONResponse:
    body = error.body(session_id=session_id, request_id=request_id)
    return JSONResponse(body, status_code=status or error.status)


async def _not_found(request: Request, error: HTTPException) -> Response:
    message = f"{request.method} {request.url.path}: {error.detail}"
    hint = "a host serves GET /programs, POST /turns and POST /warmings"
    return _failure(InvalidRequest(message, hint=hint), status=error.status_code)


async def _unexpected(_: Request, error: Exception) -> Response:
    # Starlette logs the traceback by raising the error again behind the answer.
    return _failure(AgentServeError(f"the program host failed: {type(error).__name__}"))
