"""A turn that runs: decoded, begun, planned, asked of a program host, stored.

What can wait does, while something else takes its time: the store is told that the turn has begun
while its prompt is planned, and the pictures are stored while the program runs. The answer waits
for all of it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

from agentserve.core.config import RouterConfig
from agentserve.core.errors import AgentServeError, HostLost, NoWorker, WorkerLost
from agentserve.core.events import EventType, TurnEventType
from agentserve.core.hosting import HostAnswer
from agentserve.core.logs import tell
from agentserve.core.plans import Sha256
from agentserve.core.sessions import SessionStatus, Timings, TurnResult
from agentserve.core.workers import Worker
from agentserve.router.blobs import BlobStore
from agentserve.router.hosts import HostPool
from agentserve.router.metrics import Metrics
from agentserve.router.releasing import Releases
from agentserve.router.sessions import Sessions
from agentserve.router.store import (
    EventDraft,
    RunningTurn,
    SessionRecord,
    TurnRecord,
    VersionConflict,
)
from agentserve.router.surfaces import Surfaces
from agentserve.router.tasks import Tasks, end, to_its_end
from agentserve.router.turns.asked import AskedTurn
from agentserve.router.turns.asking import TurnAsk, host_turn, started
from agentserve.router.turns.clock import Clock
from agentserve.router.turns.handover import Handed, Handover
from agentserve.router.turns.log import TurnLog, beginning
from agentserve.router.turns.planning import Planned, Planner
from agentserve.router.turns.results import turn_result
from agentserve.router.turns.storing import Storing
from agentserve.router.turns.telemetry import phase
from agentserve.router.workers.registry import WorkerRegistry
from agentserve.vision.patches import open_sent
from agentserve.vision.screenshots import Screenshot

MAX_DECODES = 4
"""Screenshots decoded at once: the largest one allowed takes some 250 MB while it is."""
LEARN_AFTER_S = 0.25
"""Once a turn is completed: its answer is sent before."""


class BegunElsewhere(Exception):
    """Another router was faster with this session: look again."""


def is_free(record: SessionRecord, router: str) -> bool:
    """Whether a turn may begin at ``router``, which runs none of the session. One that is shown as
    running here is nobody's: the store was lost before it told that the turn had begun, or could be
    told that it failed."""
    running = record.running
    ours = running is not None and running.router == router
    return record.session.status is SessionStatus.IDLE or ours


@dataclass(frozen=True)
class _Given:
    """A turn and what it has to go by."""

    turn: AskedTurn
    ask: TurnAsk
    shot: Screenshot
    handed: Handed


@dataclass(frozen=True)
class _Early:
    """A plan that is made before the turn has begun, for a worker that should be the one."""

    worker: Worker
    planning: asyncio.Task[Planned]


class TurnRunner:
    """Runs turns that were asked for."""

    def __init__(
        self,
        config: RouterConfig,
        log: TurnLog,
        sessions: Sessions,
        registry: WorkerRegistry,
        hosts: HostPool,
        blobs: BlobStore,
        handover: Handover,
        planner: Planner,
        surfaces: Surfaces,
        metrics: Metrics,
        releases: Releases,
        router: str,
    ) -> None:
        """``router`` names this process in the store."""
        self._router = router
        self._config = config
        self._log = log
        self._sessions = sessions
        self._registry = registry
        self._hosts = hosts
        self._blobs = blobs
        self._handover = handover
        self._planner = planner
        self._surfaces = surfaces
        self._metrics = metrics
        self._releases = releases
        self._tasks = Tasks()
        self._decodes = asyncio.Semaphore(MAX_DECODES)

    async def run(
        self, turn: AskedTurn, record: SessionRecord, ask: TurnAsk, name: Sha256
    ) -> TurnResult:
        """``name``: the screenshot's, as it was sent. Raises what Turns.ask says, BegunElsewhere,
        and why the turn was ended."""
        clock = Clock()
        try:
            # a thread cannot be cancelled: it counts until it ends
            shot = await self._tasks.run(self._decode(ask, name, record))
            turn.deadline.remaining()
            clock.decode_ms = clock.lap()
            with self._handover.turn() as handed:
                return await self._run(record, _Given(turn, ask, shot, handed), clock)
        except asyncio.CancelledError:
            self._metrics.turns.labels("cancelled").inc()
            if turn.ended is None:
                raise
            raise turn.ended from None

    async def stop(self) -> None:
        await self._tasks.stop()

    async def _decode(self, ask: TurnAsk, name: Sha256, record: SessionRecord) -> Screenshot:
        space, limit = record.session.space, self._config.max_screenshot_bytes
        with phase(self._metrics, "decode"):
            async with self._decodes:
                return await asyncio.to_thread(
                    open_sent, ask.screenshot, name, space, max_bytes=limit
                )

    async def _run(self, record: SessionRecord, given: _Given, clock: Clock) -> TurnResult:
        turn = given.turn
        running = RunningTurn(router=self._router, key=turn.key)
        record = record.model_copy(update={"running": running})
        storing = Storing(self._blobs, record.tenant, self._tasks)
        early = self._plan_early(record, given)
        try:
            await asyncio.sleep(0)  # so that planning, which takes longer, has its thread first
            with phase(self._metrics, "wait"):
                record = await self._start(record, given)
            clock.wait_ms = clock.lap()
            plan_ms = clock.decode_ms
            attempts = 0
            lost: set[str] = set()
            failed: set[str] = set()
            while True:
                attempts += 1
                with phase(self._metrics, "plan"):
                    record, worker = await self._sessions.pins.place(record, frozenset(lost))
                    tell(worker_id=worker.id)
                    queued_ms = clock.wait_ms + clock.lap()
                    planned = await self._plan(early, record, given, worker)
                plan_ms += clock.lap()
                turn.check()
                turn.tell(TurnEventType.STARTED, **started(planned.plan, worker, attempts))
                try:
                    storing.begin(planned.pictures)
                    asking = self._ask_host(record, given, planned, worker)
                    answer = await storing.beside(asking)
                    self._registry.answered(worker.id)
                    break
                except (WorkerLost, HostLost) as error:
                    if error.code in failed:
                        raise
                    failed.add(error.code)
                    record = await self._retry(record, worker, error, lost)
                    turn.tell(TurnEventType.RETRIED, reason=error.code, worker=worker.id)
            program_ms = clock.lap()
            timings = Timings(
                queue_ms=queued_ms, plan_ms=plan_ms, program_ms=program_ms, total_ms=clock.total()
            )
            held = planned.held(answer)  # less than the way to a thread and back takes
            after = held.pieces if held else [*planned.plan.prior, *answer.pieces]
            result = turn_result(
                record, given.shot, planned.plan, answer, after, worker, timings, attempts
            )
            stored = TurnRecord(result.epoch, turn.key, result, answer.pieces, held)
            with phase(self._metrics, "store"):
                await storing.done()
                await self._log.complete(record, stored, after)
        except BaseException as error:  # cancellation included (release, shutdown)
            await to_its_end(self._undo(record, error, early, storing))
            raise
        self._metrics.turn_completed(result)
        if not planned.plan.prior:
            self._surfaces.shown(record, answer.pieces, worker)
        if planned.mosaic is not None and held is not None:
            self._planner.completed(planned, held)
            self._tasks.detach(self._learn(record, planned.mosaic.screen.identities))
        return result

    async def _learn(self, record: SessionRecord, screen: Sequence[Sha256]) -> None:
        """Milliseconds of this thread's time, for which the client need not wait."""
        await asyncio.sleep(LEARN_AFTER_S)
        await self._surfaces.observe(record, screen)

    async def _start(self, record: SessionRecord, given: _Given) -> SessionRecord:
        """The record once the turn has its place, and the store knows. Raises TurnTimeout,
        Overloaded."""
        turn = given.turn
        data = beginning(record, given.shot.sha256, given.ask.request_id)
        started = EventDraft(EventType.TURN_STARTED, data)
        waits = not turn.place.runs
        first = EventDraft(EventType.TURN_QUEUED, data) if waits else started
        while True:
            try:
                record = await self._log.begin(record, first)
                break
            except VersionConflict:
                current = await self._sessions.open(record.session.id)
                if current.session.epoch != turn.epoch or not is_free(current, self._router):
                    raise BegunElsewhere from None
                record = current.model_copy(update={"running": record.running})
        turn.version = record.version
        if not waits:
            return record
        turn.tell(TurnEventType.QUEUED, ahead=turn.place.ahead)
        await turn.place.ready(turn.deadline)
        return await self._log.tell(record, started)

    def _plan_early(self, record: SessionRecord, given: _Given) -> _Early | None:
        """None for a turn that waits for its place, or must first find a worker."""
        worker = self._sessions.pins.holder(record)
        if worker is None or not given.turn.place.runs:
            return None
        return _Early(worker, self._tasks.start(self._planned(record, given, worker)))

    async def _plan(
        self, early: _Early | None, record: SessionRecord, given: _Given, worker: Worker
    ) -> Planned:
        if early is not None and early.worker.boot_id == worker.boot_id:
            planned = await early.planning
        else:
            planned = await self._planned(record, given, worker)
        return await self._planner.begun(planned)

    async def _planned(self, record: SessionRecord, given: _Given, worker: Worker) -> Planned:
        return await self._planner.plan(record, given.ask, given.shot, worker, given.handed.put)

    async def _ask_host(
        self, record: SessionRecord, given: _Given, planned: Planned, worker: Worker
    ) -> HostAnswer:
        plan, left = planned.plan, given.turn.deadline.remaining()
        folder, most = given.handed.folder, self._config.max_turn_tokens
        asked = host_turn(record, given.ask, plan, folder, worker, left, most)
        pieces = [*plan.prior, *plan.screen]
        async with self._planner.pictures(record, pieces, planned.shown):
            with self._registry.busy(worker.id), phase(self._metrics, "program"):
                return await self._hosts.turn(asked)

    async def _retry(
        self, record: SessionRecord, worker: Worker, error: AgentServeError, lost: set[str]
    ) -> SessionRecord:
        """Make ready for the second attempt: on another worker when this one was lost. Raises
        ``error`` when there is no other."""
        if isinstance(error, WorkerLost):
            lost.add(worker.id)
            self._registry.failed(worker.id)
            await self._registry.check(worker.id)
            try:
                record, _ = await self._sessions.pins.place(record, frozenset(lost))
            except NoWorker:
                raise error from None
        data = {"reason": error.code, "message": error.message, "worker": worker.id}
        record = await self._log.tell(record, EventDraft(EventType.TURN_RETRIED, data))
        self._metrics.turn_retries.labels(error.code).inc()
        return record

    async def _undo(
        self, record: SessionRecord, error: BaseException, early: _Early | None, storing: Storing
    ) -> None:
        """The session must not stay running. Once it is closed, this was the last of it."""
        if early is not None:
            await end([early.planning])
        await storing.end()
        if await self._log.fail(record, error):
            self._releases.over(record)
