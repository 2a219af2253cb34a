"""The workers: who is ready, which life they are in, and every HTTP request that goes to them.

The only place that sees httpx's errors about workers; those of the pass-through are forwarding's.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import time
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field

import httpx
from pydantic import ValidationError

from agentserve import __version__
from agentserve.core.config import KEEP_CONNECTION_S, RouterConfig
from agentserve.core.errors import TurnTimeout, WorkerLost
from agentserve.core.workers import (
    Drain,
    KvRelease,
    KvReleased,
    OverSession,
    Worker,
    WorkerReport,
    WorkerState,
)
from agentserve.router.forwarding import Forwarded, Forwarder, Headers, Lost, Pieces, Silent
from agentserve.router.store import PinLoad
from agentserve.router.tasks import end
from agentserve.router.workers.circuit import Circuit
from agentserve.router.workers.discovery import Discovery

log = logging.getLogger(__name__)
LAST_STATUS = 599
"""The highest status that HTTP has; uvicorn cannot send a higher one."""
PROBE_TIMEOUT_S = 10.0
HEALTH_TIMEOUT_S = 25.0
"""SGLang's own health check gives up after 20 s."""
HEALTH_EVERY_S = 10.0
"""SGLang's ``/health`` generates a token and takes a second, so a ready worker is asked rarely;
its report, which is cheap, shows at each poll that it lives and in which life."""

RELEASE_TIMEOUT_S = 15.0
"""A worker waits 5 s for what still runs of a session that is over, behind what it computes."""


NOTHING = PinLoad(0, 0)


def worker_id(url: str) -> str:
    return "w-" + hashlib.sha256(url.encode()).hexdigest()[:10]


@dataclass
class _Entry:
    """One worker's state; changed by its poller and by check()."""

    url: str
    id: str
    state: WorkerState = WorkerState.STARTING
    reason: str = "not asked yet"
    boot_id: str = ""
    report: WorkerReport | None = None
    failures: int = 0
    plain_lives: int = 0
    running: int = 0
    drain: Drain | None = None
    health_at: float = 0.0
    circuit: Circuit = field(default_factory=Circuit)
    probing: asyncio.Lock = field(default_factory=asyncio.Lock)

    def view(self, load: PinLoad) -> Worker:
        return Worker(
            id=self.id,
            url=self.url,
            state=self.state,
            reason=self.reason,
            boot_id=self.boot_id,
            report=self.report,
            sessions=load.sessions,
            held_tokens=load.tokens,
            running_turns=self.running,
            resting=bool(self.circuit.rests(time.monotonic())),
            drain=self.drain,
        )


class _Refused(Exception):
    """The worker answers but cannot be used; its text says why."""


class WorkerRegistry:
    """The workers that a discovery tells, and their health. ``lives`` yields (worker id, boot id)
    whenever a worker becomes ready in a life that was not known: pins to earlier lives are void."""

    def __init__(self, config: RouterConfig, discovery: Discovery) -> None:
        self._config = config
        self._discovery = discovery
        self._entries: dict[str, _Entry] = {}
        # No environment proxies: workers are named by their own addresses.
        self._http = httpx.AsyncClient(
            timeout=PROBE_TIMEOUT_S,
            trust_env=False,
            limits=httpx.Limits(
                max_connections=None,
                max_keepalive_connections=64,
                keepalive_expiry=KEEP_CONNECTION_S,
            ),
        )
        self._forwarder = Forwarder(config.worker_timeout_s)
        self._pollers: dict[str, asyncio.Task[None]] = {}
        self._follower: asyncio.Task[None] | None = None
        self.lives: asyncio.Queue[tuple[str, str]] = asyncio.Queue()

    async def start(self) -> None:
        """Returns once the first workers are known by name; that they are ready takes longer."""
        told = self._discovery.workers()
        self._set_workers(await anext(told))
        self._follower = asyncio.create_task(self._follow(told))

    async def stop(self) -> None:
        await end([*self._pollers.values(), *([self._follower] if self._follower else [])])
        self._forwarder.close()
        await self._http.aclose()

    async def _follow(self, told: AsyncIterator[list[str]]) -> None:
        async for urls in told:
            self._set_workers(urls)

    def _set_workers(self, urls: Iterable[str]) -> None:
        """Begin to ask the new ones, forget those that are gone: their sessions move with their
        next turn, what still runs there ends there."""
        wanted = {worker_id(url): url for url in urls}
        for gone in self._entries.keys() - wanted.keys():
            log.info("worker %s %s is gone", gone, self._entries[gone].url)
            self._pollers.pop(gone).cancel()
            del self._entries[gone]
        for new, url in wanted.items():
            if new not in self._entries:
                self._entries[new] = _Entry(url, new)
                self._pollers[new] = asyncio.create_task(self._poll(self._entries[new]))

    # what is known

    def snapshot(self, loads: Mapping[str, PinLoad]) -> list[Worker]:
        """All workers as they are now. ``loads`` comes from the store."""
        return [entry.view(loads.get(entry.id, NOTHING)) for entry in self._entries.values()]

    @property
    def ready(self) -> int:
        """How many may be sent requests."""
        return sum(entry.state is WorkerState.READY for entry in self._entries.values())

    @property
    def mixed(self) -> bool:
        """Whether not all workers serve the same model, by those that have said what they are."""
        entries = self._entries.values()
        known = [entry for entry in entries if entry.report or entry.state is WorkerState.READY]
        return len({entry.report and entry.report.served_model_name for entry in known}) > 1

    def get(self, worker_id: str) -> Worker | None:
        """One worker, without its number of pins."""
        entry = self._entries.get(worker_id)
        return entry.view(NOTHING) if entry else None

    def set_drain(self, worker_id: str, drain: Drain | None) -> None:
        """Let a worker take no new sessions, or take them again."""
        if entry := self._entries.get(worker_id):
            entry.drain = drain

    @contextmanager
    def busy(self, worker_id: str) -> Iterator[None]:
        """Counts a turn or request that runs on the worker."""
        entry = self._entries.get(worker_id)
        if entry is None:  # gone since it was chosen: what runs there does not count any more
            yield
            return
        entry.running += 1
        try:
            yield
        finally:
            entry.running -= 1

    def answered(self, worker_id: str) -> None:
        """A request got an answer from the worker, be it a refusal."""
        if entry := self._entries.get(worker_id):
            entry.circuit.succeeded()

    def failed(self, worker_id: str) -> None:
        """A request was lost on the worker, or got a 5xx."""
        if entry := self._entries.get(worker_id):
            entry.circuit.failed(time.monotonic())
            if reason := entry.circuit.rests(time.monotonic()):
                self._set(entry, WorkerState.DOWN, reason)

    # requests

    @asynccontextmanager
    async def forward(
        self,
        worker: Worker,
        method: str,
        target: str,
        headers: Headers,
        body: Pieces,
    ) -> AsyncIterator[Forwarded]:
        """Send a request as it is and yield the response, its body unread: ``chunks`` reads it.
        ``target`` is path and query. Raises WorkerLost when the worker dies, TurnTimeout when it
        stays silent."""
        with self._losses(worker):
            response = await self._send(worker, method, target, headers, body)
        try:
            if response.status_code > LAST_STATUS:
                raise WorkerLost(
                    f"worker {worker.id} answered with status {response.status_code}, "
                    "which HTTP does not have",
                    hint="is it an SGLang server, without a proxy in between?",
                )
            if response.status_code >= 500:
                self.failed(worker.id)
            else:
                self.answered(worker.id)
            yield response
        finally:
            response.close()

    async def chunks(self, worker: Worker, response: Forwarded) -> AsyncIterator[bytes]:
        """The body of a forwarded response as it arrives. Raises WorkerLost and TurnTimeout."""
        with self._losses(worker):
            async for chunk in response.chunks():
                yield chunk

    async def release(
        self, worker_id: str, boot_id: str, sessions: Sequence[OverSession]
    ) -> KvReleased | None:
        """Have a worker free the KV of sessions that are over; None when it does not, or is not in
        that life any more. What it says to this is no sign of its health."""
        entry = self._entries.get(worker_id)
        if entry is None or entry.state is not WorkerState.READY or entry.boot_id != boot_id:
            return None
        try:
            answer = await self._http.post(
                entry.url + "/agentserve/release",
                content=KvRelease(sessions=list(sessions)).model_dump_json(),
                headers={"content-type": "application/json"},
                timeout=RELEASE_TIMEOUT_S,
            )
            return KvReleased.model_validate_json(answer.raise_for_status().content)
        except (httpx.HTTPError, ValidationError) as error:
            log.info("worker %s does not release %d sessions: %r", worker_id, len(sessions), error)
            return None

    @contextmanager
    def _losses(self, worker: Worker) -> Iterator[None]:
        """Counts the pass-through's losses, and tells them as ours."""
        try:
            yield
        except Silent as error:
            self.failed(worker.id)
            raise TurnTimeout(
                f"worker {worker.id} was silent for {self._config.worker_timeout_s:g} s",
                hint="ask for fewer tokens, or raise the router's worker timeout",
            ) from error
        except Lost as error:
            self.failed(worker.id)
            raise WorkerLost(
                f"worker {worker.id} at {worker.url} was lost: {error}",
                hint="ask again: another worker is taken when one is ready",
                retry_after=2,
            ) from error

    async def _send(
        self,
        worker: Worker,
        method: str,
        target: str,
        headers: Headers,
        body: Pieces,
    ) -> Forwarded:
        """Send a request; once more when a connection kept from an earlier one breaks before any
        answer while the worker lives on: it was closing that connection for being idle."""
        try:
            return await self._forwarder.send(method, worker.url, target, headers, body)
        except Lost as lost:
            if not lost.kept or not await self._lives_on(worker):
                raise
        return await self._forwarder.send(method, worker.url, target, headers, body)

    # health

    async def _lives_on(self, worker: Worker) -> bool:
        """Whether a worker answers now, in the life that the caller saw."""
        entry = self._entries.get(worker.id)
        if entry is None:
            return False
        await self._probe(entry, suspected=True)
        ready = entry.state is WorkerState.READY and entry.failures == 0
        return ready and entry.boot_id == worker.boot_id

    async def check(self, worker_id: str) -> None:
        """Ask a worker now, because something points to its death. One that refuses connections
        is down at once."""
        if entry := self._entries.get(worker_id):
            await self._probe(entry, suspected=True)

    async def _poll(self, entry: _Entry) -> None:
        while True:
            await self._probe(entry)
            await asyncio.sleep(self._config.health_interval_s)

    async def _probe(self, entry: _Entry, *, suspected: bool = False) -> None:
        async with entry.probing:
            if reason := entry.circuit.rests(time.monotonic()):
                self._set(entry, WorkerState.DOWN, reason)
                return
            try:
                report = await self._report(entry)
                healthy = await self._healthy(entry, report)
            except _Refused as refused:
                self._set(entry, WorkerState.REFUSED, str(refused))
            except httpx.TransportError as error:
                certain = suspected and isinstance(error, httpx.ConnectError)
                self._failed(entry, str(error) or type(error).__name__, certain=certain)
            else:
                if healthy:
                    self._alive(entry, report)
                else:
                    self._failed(entry, "its /health does not answer 200", certain=False)

    async def _report(self, entry: _Entry) -> WorkerReport | None:
        """The plugin's report, None for an accepted plain worker. Raises _Refused."""
        answer = await self._http.get(entry.url + "/agentserve")
        if answer.status_code == 404 and self._config.plain_workers:
            return None
        if answer.status_code != 200:
            raise _Refused(
                f"GET /agentserve answered {answer.status_code}: no agentserve plugin; start it "
                "with `agentserve worker`, or let the router take plain workers"
            )
        try:
            report = WorkerReport.model_validate_json(answer.content)
        except ValidationError as error:
            raise _Refused(
                f"its report is not of agentserve {__version__}: {error.errors()[0]['msg']}"
            ) from error
        if report.version != __version__:
            raise _Refused(f"its plugin is {report.version}, this router is {__version__}")
        return report

    async def _healthy(self, entry: _Entry, report: WorkerReport | None) -> bool:
        known = entry.state is WorkerState.READY and (
            report is None or report.boot_id == entry.boot_id
        )
        if known and time.monotonic() - entry.health_at < HEALTH_EVERY_S:
            return True
        try:
            answer = await self._http.get(entry.url + "/health", timeout=HEALTH_TIMEOUT_S)
        except httpx.ReadTimeout:
            return False
        entry.health_at = time.monotonic()
        return answer.status_code == 200

    def _alive(self, entry: _Entry, report: WorkerReport | None) -> None:
        if report is not None:
            boot_id = report.boot_id
        else:
            # A plain worker does not tell its life: each time it comes back counts as one.
            if entry.state is not WorkerState.READY:
                entry.plain_lives += 1
            boot_id = f"plain-{entry.plain_lives}"
        new_life = boot_id != entry.boot_id
        entry.failures = 0
        entry.report, entry.boot_id = report, boot_id
        if reason := entry.circuit.rests(time.monotonic()):  # since the probe began
            self._set(entry, WorkerState.DOWN, reason)
        else:
            self._set(entry, WorkerState.READY, "" if report else "plain: pass-through only")
        if new_life:
            self.lives.put_nowait((entry.id, boot_id))

    def _failed(self, entry: _Entry, reason: str, *, certain: bool) -> None:
        entry.failures += 1
        if entry.state is WorkerState.STARTING:
            entry.reason = reason
        elif certain or entry.failures >= self._config.health_failures:
            self._set(entry, WorkerState.DOWN, reason)

    def _set(self, entry: _Entry, state: WorkerState, reason: str) -> None:
        if state is not entry.state:
            log.info("worker %s %s is %s %s", entry.id, entry.url, state.value, reason)
        entry.state, entry.reason = state, reason
