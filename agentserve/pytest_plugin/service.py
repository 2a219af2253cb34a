"""The event loop beside the tests, in which everything that they share lives."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Coroutine, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any, TypeVar

from agentserve.cli.stack import StackOptions, local_stack
from agentserve.client import RouterClient
from agentserve.core.config import api_key
from agentserve.core.errors import NoWorker
from agentserve.core.sessions import Session, SessionCreate, TurnResult
from agentserve.core.workers import WorkerState
from agentserve.pytest_plugin.sharing import shared_router
from agentserve.regression.options import ReplayOptions
from agentserve.regression.parts import Parts
from agentserve.regression.replaying import replay_one
from agentserve.replay import Recording, Replayed

T = TypeVar("T")


class Sessions:
    """Sessions of one test."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._made: list[str] = []

    def create(self, **fields: Any) -> Session:
        """Fields of SessionCreate. Raises what the router answers."""
        create = SessionCreate.model_validate(fields)
        made = self._service.ask(lambda client: client.create_session(create))
        self._made.append(made.id)
        return made

    def turn(self, session: Session | str, screenshot: bytes, **options: Any) -> TurnResult:
        """As RouterClient.turn."""
        name = session if isinstance(session, str) else session.id
        return self._service.ask(lambda client: client.turn(name, screenshot, **options))

    def release(self) -> None:
        for name in self._made:
            self._service.ask(lambda client, name=name: client.release(name))


class Service:
    """Of one process. Nothing is started before it is asked for."""

    def __init__(self, router: str | None, offered: Path | None = None) -> None:
        """``router``: one that is there; ``offered``: the folder in which to ask for one that the
        processes share. Without both one is started here."""
        self._given = router
        self._offered = offered
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(
            target=self._loop.run_forever, name="agentserve", daemon=True
        )
        self._thread.start()
        self._parts: Parts | None = None

    def replay(self, recording: Recording, name: str, options: ReplayOptions) -> Replayed:
        """Raises RecordingError, InvalidRequest, BrowserFailed."""

        async def played() -> Replayed:
            return await replay_one(await self._started(), recording, name, options)

        return self._run(played())

    def router_url(self) -> str:
        return self.ask(_url)

    def worker_url(self) -> str:
        """Raises NoWorker."""
        return self.ask(_first_worker)

    def ask(self, work: Any) -> Any:
        """What a coroutine function of a RouterClient gives."""

        async def asked() -> Any:
            return await work(await (await self._started()).router())

        return self._run(asked())

    @contextmanager
    def sessions(self) -> Iterator[Sessions]:
        sessions = Sessions(self)
        try:
            yield sessions
        finally:
            sessions.release()

    def stop(self) -> None:
        """Everything that was started."""
        if self._parts is not None:
            self._run(self._parts.__aexit__(None, None, None))
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _started(self) -> Parts:
        if self._parts is None:
            self._parts = await Parts(self._router).__aenter__()
        return self._parts

    @asynccontextmanager
    async def _router(self) -> AsyncIterator[RouterClient]:
        if self._given is None and self._offered is not None:
            url = await asyncio.to_thread(shared_router, self._offered)
            async with RouterClient(url) as client:
                yield client
            return
        if self._given is not None:
            async with RouterClient(self._given, api_key=api_key()) as client:
                yield client
            return
        async with local_stack(StackOptions(workers=1)) as stack:
            async with RouterClient(stack.router) as client:
                yield client

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        """In the loop. An interruption cancels it."""
        future = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return future.result()
        except KeyboardInterrupt:
            future.cancel()
            raise


async def _url(client: RouterClient) -> str:
    return client.url


async def _first_worker(client: RouterClient) -> str:
    for worker in (await client.workers()).workers:
        if worker.state is WorkerState.READY:
            return worker.url
    raise NoWorker(f"no worker of the router at {client.url} is ready")
