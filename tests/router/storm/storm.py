"""Sessions through two routers on one Redis while workers and routers die, restart and drain."""

from __future__ import annotations

import asyncio
import random
import resource
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import psutil

from agentserve.client import RouterClient
from agentserve.core.errors import (
    AgentServeError,
    StaleEpoch,
    TurnInProgress,
    Unavailable,
    from_body,
)
from agentserve.core.events import EventType
from agentserve.core.sessions import Session, TurnResult
from agentserve.router.workers.registry import worker_id
from agentserve.testing.worker import FakeWorker

from ..own_process import free_port
from ..redis_server import RedisServer
from ..rig import new_session, picture

ROOT = Path(__file__).resolve().parents[3]
LONGER_THAN_A_STORM_S = 12 * 3600.0
"""What a session may be idle for, and may take: here none expires."""
PATIENCE_S = 120.0
"""How long a client asks for one turn again."""
IMPATIENT, SLOW = 0.05, 0.05
"""Shares of the requests whose client leaves before the answer, and whose body trickles in."""
SCREENS = [picture(color=(40 * n, 90, 255 - 40 * n)) for n in range(6)]


class Router:
    """A router process on a port of its own."""

    def __init__(self, folder: Path, name: str, arguments: list[str]) -> None:
        self.port = free_port()
        self._command = [
            *(sys.executable, "-m", "tests.router.storm.child"),
            *(str(folder / name), *arguments, str(self.port)),
        ]
        self._log = folder / f"{name}.log"
        self._process: asyncio.subprocess.Process | None = None
        self.peak_mb: list[float] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    async def start(self) -> None:
        with self._log.open("ab") as log:
            self._process = await asyncio.create_subprocess_exec(
                *self._command, cwd=ROOT, stdout=log, stderr=log, stdin=asyncio.subprocess.DEVNULL
            )

    async def kill(self) -> None:
        """As by kill -9; its program hosts end by themselves."""
        assert self._process is not None
        with suppress(ProcessLookupError):
            self._process.kill()
        await self._process.wait()

    def memory_mb(self) -> float:
        """Resident memory of the router alone, without its hosts; 0 while it does not run."""
        assert self._process is not None
        try:
            return psutil.Process(self._process.pid).memory_info().rss / 2**20
        except psutil.NoSuchProcess:
            return 0.0


@dataclass
class Told:
    """What the clients saw."""

    turns: int = 0
    repeated: Counter[str] = field(default_factory=Counter)
    """Requests that were asked again, by the code of the error."""
    seconds: list[float] = field(default_factory=list)
    """Of each turn, from its first request to its answer."""
    slow: int = 0
    """Requests whose bodies took seconds to arrive."""
    replayed: int = 0
    lost: list[str] = field(default_factory=list)
    """Sessions that did not get all of their turns, and why."""
    memory_mb: list[tuple[float, float, float]] = field(default_factory=list)
    """(seconds since the start, of the first router, of the second)."""
    deeds: Counter[str] = field(default_factory=Counter)


class Storm:
    def __init__(self, routers: list[Router], workers: list[FakeWorker], seed: int) -> None:
        self._routers = routers
        self.mortal = routers
        """Those that are killed now and then."""
        self._workers = workers
        self._draw = random.Random(seed)
        self._clients = [RouterClient(router.url, timeout_s=20) for router in routers]
        self._begun = time.monotonic()
        self.told = Told()
        self.sessions: list[str] = []

    async def close(self) -> None:
        for client in self._clients:
            await client.close()

    async def ready(self) -> None:
        for client in self._clients:
            until = time.monotonic() + 60
            while True:
                with suppress(Unavailable):
                    if (await client.ready()).status == "ok":
                        break
                assert time.monotonic() < until, "a router does not start"
                await asyncio.sleep(0.1)

    async def run(
        self, sessions: int, turns: int, at_once: int, deed_every_s: float, deeds: int
    ) -> None:
        """Play so many sessions, and as many again until ``deeds`` more things have broken: one
        does so every ``deed_every_s``."""
        deeds += self.told.deeds.total()
        free = asyncio.Semaphore(at_once)

        async def one(number: int) -> None:
            async with free:
                await self._play(number, turns)

        breaking = asyncio.create_task(self._break(deed_every_s))
        watching = asyncio.create_task(self._watch())
        try:
            rounds = 0
            while not rounds or self.told.deeds.total() < deeds:
                first = len(self.sessions)
                await asyncio.gather(*(one(first + number) for number in range(sessions)))
                rounds += 1
        finally:
            for task in (breaking, watching):
                task.cancel()
            await asyncio.gather(breaking, watching, return_exceptions=True)

    # clients

    async def _play(self, number: int, turns: int) -> None:
        draw = random.Random(number)
        create = new_session(
            timeout_s=LONGER_THAN_A_STORM_S, inactivity_timeout_s=LONGER_THAN_A_STORM_S
        )
        created = await self._until(draw, lambda client: client.create_session(create))
        if not isinstance(created, Session):
            self.told.lost.append(f"not created: {created}")
            return
        self.sessions.append(created.id)
        for epoch in range(turns):
            begun = time.monotonic()
            screen = SCREENS[(number + epoch) % len(SCREENS)]

            async def ask(client: RouterClient, screen: bytes = screen, epoch: int = epoch) -> Any:
                kind = draw.random()
                if kind < SLOW:
                    self.told.slow += 1
                    return await _slowly(client.url, created.id, screen, epoch, draw.uniform(1, 4))
                asked = client.turn(created.id, screen, epoch=epoch)
                if kind < SLOW + IMPATIENT:  # a client that does not wait, and asks again
                    return await asyncio.wait_for(asked, draw.uniform(0.001, 0.1))
                return await asked

            result = await self._until(draw, ask)
            if isinstance(result, str):
                self.told.lost.append(f"{created.id} turn {epoch}: {result}")
                return
            self.told.turns += 1
            self.told.replayed += result.replayed
            self.told.seconds.append(time.monotonic() - begun)
            if (result.turn, result.epoch) != (epoch, epoch):
                self.told.lost.append(f"{created.id}: asked {epoch}, got {result.epoch}")

    async def _until(self, draw: random.Random, ask: Any) -> Any:
        """What ``ask`` answers, by whichever router; the last error's text after PATIENCE_S."""
        until = time.monotonic() + PATIENCE_S
        while True:
            try:
                return await ask(draw.choice(self._clients))
            except TimeoutError:
                code = "client left"
            except StaleEpoch as error:
                return f"stale: {error.message}"
            except (Unavailable, TurnInProgress) as error:
                code, text = error.code, error.message
                if time.monotonic() > until:
                    return text
            except AgentServeError as error:
                return f"{error.code}: {error.message}"
            self.told.repeated[code] += 1
            await asyncio.sleep(draw.uniform(0.05, 0.3))

    # what breaks

    async def _break(self, every_s: float) -> None:
        deeds = [self._restart_worker, self._restart_worker, self._drain, self._restart_router]
        while True:
            await asyncio.sleep(self._draw.uniform(0.5, 1.5) * every_s)
            deed = self._draw.choice(deeds)
            self.told.deeds[deed.__name__.strip("_")] += 1
            await deed()

    async def _restart_worker(self) -> None:
        worker = self._draw.choice(self._workers)
        await worker.kill()
        try:
            await asyncio.sleep(self._draw.uniform(0, 1.5))
        finally:  # the storm may end just now
            await worker.start()

    async def _restart_router(self) -> None:
        router = self._draw.choice(self.mortal)
        await router.kill()
        try:
            await asyncio.sleep(self._draw.uniform(0, 0.5))
        finally:
            await router.start()

    async def _drain(self) -> None:
        worker = worker_id(self._draw.choice(self._workers).url)
        with suppress(AgentServeError):
            await self._draw.choice(self._clients).drain(worker)
        await asyncio.sleep(self._draw.uniform(0.5, 2))
        for client in self._clients:  # by whichever router lives
            with suppress(AgentServeError):
                await client.undrain(worker)
                return

    async def _watch(self) -> None:
        while True:
            one, two = (round(router.memory_mb(), 1) for router in self._routers)
            self.told.memory_mb.append((round(time.monotonic() - self._begun, 1), one, two))
            await asyncio.sleep(1)

    # afterwards

    async def wrong(self, turns: int) -> list[str]:
        """What does not hold of the sessions, as the store tells them in the end."""
        client, free = self._clients[0], asyncio.Semaphore(16)

        async def look(session_id: str) -> list[str]:
            async with free:
                session = None
                # sessions of a worker that was just restarted are still being placed afresh
                while session != (session := await client.session(session_id)):
                    events = (await client.events(session_id, limit=1000)).events
            return [f"{session_id}: {problem}" for problem in _problems(session, events, turns)]

        found = await asyncio.gather(*map(look, self.sessions))
        return [problem for of_one in found for problem in of_one]


async def _slowly(
    url: str, session_id: str, screen: bytes, epoch: int, seconds: float
) -> TurnResult:
    """The turn, its body sent in pieces over some seconds."""
    path = f"/v1/sessions/{session_id}/turns"
    whole = httpx.Request(
        "POST", url + path, data={"epoch": str(epoch)}, files={"screenshot": screen}
    )
    body = whole.read()
    size = max(1, len(body) // 10)

    async def trickle() -> AsyncIterator[bytes]:
        for start in range(0, len(body), size):
            yield body[start : start + size]
            await asyncio.sleep(seconds / 10)

    kind = {"content-type": whole.headers["content-type"]}
    async with httpx.AsyncClient(base_url=url, timeout=30) as http:
        try:
            answer = await http.post(path, content=trickle(), headers=kind)
        except httpx.TransportError as error:
            raise Unavailable(str(error)) from error
    if answer.is_success:
        return TurnResult.model_validate(answer.json())
    raise from_body(answer.json())


def _problems(session: Session, events: list[Any], turns: int) -> list[str]:
    found = []
    if (session.turns, session.epoch, session.status.value) != (turns, turns, "idle"):
        found.append(f"{session.turns} turns, epoch {session.epoch}, {session.status.value}")
    done = [event.data["epoch"] for event in events if event.type is EventType.TURN_COMPLETED]
    if done != list(range(turns)):
        found.append(f"epochs completed: {done}")
    if [event.seq for event in events] != list(range(1, len(events) + 1)):
        found.append("events have gaps")
    moves = [e for e in events if e.type in (EventType.PIN_PLACED, EventType.PIN_MOVED)]
    if [event.data["generation"] for event in moves] != list(range(1, len(moves) + 1)):
        found.append(f"generations: {[event.data['generation'] for event in moves]}")
    pin = moves[-1].data
    if (session.pin.worker_id, session.pin.boot_id) != (pin["worker"], pin["boot_id"]):
        found.append("its pin is not where its last event put it")
    return found


@asynccontextmanager
async def running(folder: Path, workers: int, seed: int) -> AsyncIterator[Storm]:
    """Fake workers, a Redis and two router processes; all of them end with the block."""
    fakes = [FakeWorker() for _ in range(workers)]
    for worker in fakes:
        worker.delay_s = 0.02
        await worker.start()
    with RedisServer() as redis:
        listed = folder / "workers"
        listed.write_text("".join(f"{worker.url}\n" for worker in fakes))
        arguments = [str(folder / "blobs"), redis.url, str(listed)]
        routers = [Router(folder, name, arguments) for name in ("one", "two")]
        for router in routers:
            await router.start()
        storm = Storm(routers, fakes, seed)
        try:
            await storm.ready()
            yield storm
        finally:
            await storm.close()
            for router in routers:
                await router.kill()
            for worker in fakes:
                await worker.kill()


def more_files() -> None:
    """Thousands of connections at once need more open files than a shell usually has."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 65_536), hard))
