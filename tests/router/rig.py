"""A router with fake workers and a scripted host, all real servers, for the router's tests."""

from __future__ import annotations

import asyncio
import io
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import httpx
from PIL import Image

from agentserve.client import RouterClient
from agentserve.core.config import RouterConfig
from agentserve.core.events import Event
from agentserve.core.screens import Size
from agentserve.core.sessions import Session, SessionCreate
from agentserve.core.tenants import ApiKey
from agentserve.router.app import create_app
from agentserve.router.hosts import HostCommand
from agentserve.router.services import Services
from agentserve.testing.host import scripted_host
from agentserve.testing.server import LoopbackServer
from agentserve.testing.worker import FakeWorker

T = TypeVar("T")
VIEWPORT = Size(width=160, height=210)
MODEL_SIZE = Size(width=168, height=224)  # at scale 1, on the 28 px grid
SCREEN_TOKENS = 6 * 8
FAST = {"health_interval_s": 0.05, "health_failures": 2, "turn_timeout_s": 20.0}


def picture(
    size: Size = VIEWPORT, color: tuple[int, int, int] = (200, 30, 30), kind: str = "PNG"
) -> bytes:
    out = io.BytesIO()
    Image.new("RGB", (size.width, size.height), color).save(out, kind)
    return out.getvalue()


def new_session(**changes: Any) -> SessionCreate:
    fields = {"program": "scripted", "task": "press ok", "viewport": VIEWPORT}
    return SessionCreate.model_validate(fields | changes)


async def eventually(
    probe: Callable[[], Awaitable[T]], accept: Callable[[T], bool] = bool, timeout_s: float = 60
) -> T:
    """What ``probe`` gives once ``accept`` takes it."""
    until = time.monotonic() + timeout_s
    while not accept(value := await probe()):
        assert time.monotonic() < until, f"still {value!r} after {timeout_s} s"
        await asyncio.sleep(0.02)
    return value


@dataclass
class Rig:
    """A running router. ``client`` is the product's own client, ``http`` raw HTTP."""

    workers: list[FakeWorker]
    server: LoopbackServer
    services: Services
    client: RouterClient
    http: httpx.AsyncClient

    def worker_of(self, session: Session) -> FakeWorker:
        """The fake worker that a session is pinned to."""
        assert session.pin is not None
        worker = self.services.registry.get(session.pin.worker_id)
        assert worker is not None
        return next(fake for fake in self.workers if fake.url == worker.url)

    async def events(self, session_id: str) -> list[Event]:
        return (await self.client.events(session_id)).events

    async def types(self, session_id: str) -> list[str]:
        return [event.type.value for event in await self.events(session_id)]


@asynccontextmanager
async def running_rig(
    data: Path,
    fakes: list[FakeWorker] | None = None,
    host_command: HostCommand = scripted_host,
    keys: Mapping[str, tuple[str, ApiKey]] | None = None,
    **config: Any,
) -> AsyncIterator[Rig]:
    """Start (unless they run) fake workers, and a router that is ready. With ``keys``, by name,
    these are in its store, and the one named ``root`` is an admin's, which the rig uses."""
    async with AsyncExitStack() as stack:
        if fakes is None:
            fakes = [await stack.enter_async_context(FakeWorker()) for _ in range(2)]
        settings = FAST | {"workers": tuple(worker.url for worker in fakes)} | config
        app = create_app(RouterConfig(data=data, **settings), host_command=host_command)
        server = await stack.enter_async_context(LoopbackServer(app))
        for _, key in (keys or {}).values():
            await app.state.services.store.put_key(key)
        own = keys["root"][0] if keys else None
        client = await stack.enter_async_context(RouterClient(server.url, api_key=own))
        http = await stack.enter_async_context(httpx.AsyncClient(base_url=server.url, timeout=30))
        rig = Rig(fakes, server, app.state.services, client, http)
        await eventually(lambda: _host_ready(rig))
        for worker in fakes:
            await eventually(lambda worker=worker: _known(rig, worker))
        yield rig


async def _host_ready(rig: Rig) -> bool:
    return rig.services.hosts.ready > 0


async def _known(rig: Rig, worker: FakeWorker) -> bool:
    """Whether the router has made up its mind about a worker."""
    listed = {w.url: w for w in (await rig.client.workers()).workers}
    return listed[worker.url].state.value in ("ready", "refused")
