"""One turn of a session, from the screenshot to the action.

A turn waits for its place (router.admission), then runs to its end whether or not its client waits,
and its answer is stored under its epoch: asking again gives the stored answer, or joins the turn
that still waits or runs. What becomes of one that nobody waits for any more: see router.asked.
"""

from __future__ import annotations

import asyncio
import weakref
from collections.abc import AsyncGenerator, Iterator
from contextlib import ExitStack, contextmanager

from agentserve.core.blobs import sha256_of
from agentserve.core.config import RouterConfig
from agentserve.core.deadlines import Deadline
from agentserve.core.errors import (
    AgentServeError,
    HostLost,
    NoWorker,
    SessionClosed,
    TurnInProgress,
    WorkerLost,
)
from agentserve.core.events import EventType, TurnEventType
from agentserve.core.logs import tell
from agentserve.core.sessions import SessionStatus, Timings, TurnResult
from agentserve.core.workers import Worker
from agentserve.router.admission import Admission
from agentserve.router.asked import AskedTurn, Told
from agentserve.router.asking import TurnAsk, host_turn, started, turn_key
from agentserve.router.blobs import BlobStore
from agentserve.router.clock import Clock
from agentserve.router.events import EventLog
from agentserve.router.hosts import HostPool
from agentserve.router.metrics import Metrics
from agentserve.router.planning import Planner
from agentserve.router.releasing import Releases
from agentserve.router.results import turn_result
from agentserve.router.sessions import Sessions
from agentserve.router.store import (
    EventDraft,
    RunningTurn,
    SessionRecord,
    Store,
    TurnRecord,
    VersionConflict,
)
from agentserve.router.tasks import Tasks, end, to_its_end
from agentserve.router.telemetry import phase, watched_turn
from agentserve.router.turn_log import TurnLog, beginning, stale
from agentserve.router.workers import WorkerRegistry
from agentserve.vision.patches import ScreenPatch, name_of_sent, open_sent
from agentserve.vision.screenshots import Screenshot

MAX_DECODES = 4
"""Screenshots decoded at once: the largest one allowed takes some 250 MB while it is."""


class _BegunElsewhere(Exception):
    """Another router was faster with this session: look again."""


class Turns:
    """The service behind ``POST /v1/sessions/{id}/turns``."""

    def __init__(
        self,
        config: RouterConfig,
        store: Store,
        events: EventLog,
        sessions: Sessions,
        registry: WorkerRegistry,
        hosts: HostPool,
        blobs: BlobStore,
        planner: Planner,
        metrics: Metrics,
        releases: Releases,
        admission: Admission,
        router: str,
    ) -> None:
        """``router`` names this process in the store."""
        self._router = router
        self._config = config
        self._store = store
        self._events = events
        self._sessions = sessions
        self._registry = registry
        self._hosts = hosts
        self._blobs = blobs
        self._planner = planner
        self._metrics = metrics
        self._releases = releases
        self._admission = admission
        self._log = TurnLog(store, events, sessions)
        self._tasks = Tasks()
        self._decodes = asyncio.Semaphore(MAX_DECODES)
        self._asked: dict[str, AskedTurn] = {}
        # Only while somebody asks: a lock lives as long as a task holds it.
        self._looks: weakref.WeakValueDictionary[str, asyncio.Lock] = weakref.WeakValueDictionary()

    async def ask(self, session_id: str, ask: TurnAsk) -> TurnResult:
        """Run a turn, or answer what the same request was answered before. To be cancelled when
        its client leaves.

        Raises UnknownSession, SessionClosed, BadScreenshot, StaleEpoch, TurnInProgress,
        OverCapacity and Overloaded with nothing changed; everything else (NoWorker, WorkerLost,
        TurnTimeout, ProgramFailed …) leaves the session idle at the same epoch.
        """
        deadline = self._deadline(ask)
        with self._counted():
            while True:
                found = await self._find(session_id, ask, deadline)
                if isinstance(found, TurnResult):
                    return found
                with self._waiting(session_id, found):
                    try:
                        return await found.result(deadline)
                    except _BegunElsewhere:
                        continue

    async def follow(self, session_id: str, ask: TurnAsk) -> AsyncGenerator[Told, None]:
        """The same, telling how it goes; the last that is told is the result, as ``completed``."""
        deadline = self._deadline(ask)
        with self._counted():
            while True:
                result = found = await self._find(session_id, ask, deadline)
                if isinstance(found, AskedTurn):
                    with self._waiting(session_id, found):
                        async for told in found.follow(deadline):
                            yield told
                        try:
                            result = await found.result(deadline)
                        except _BegunElsewhere:
                            continue
                assert isinstance(result, TurnResult)
                yield TurnEventType.COMPLETED, result.model_dump(mode="json")
                return

    def close(self, session_id: str) -> None:
        """End the turn of a session that was just released or deleted."""
        if turn := self._asked.get(session_id):
            reason = f"session {session_id} was released during the turn"
            self._end(turn, SessionClosed(reason, hint="create a new session"))

    async def heard(self, session_id: str) -> None:
        """Another router has changed a session. Raises StorageFailed."""
        self._events.wake(session_id)
        if session_id in self._asked:
            record = await self._store.get(session_id)
            if record is None or record.closed:
                self.close(session_id)

    async def stop(self) -> None:
        await self._tasks.stop()

    # those who ask

    def _deadline(self, ask: TurnAsk) -> Deadline:
        limit = self._config.turn_timeout_s
        return Deadline(limit if ask.timeout_s is None else min(ask.timeout_s, limit))

    @contextmanager
    def _counted(self) -> Iterator[None]:
        try:
            yield
        except AgentServeError as error:
            self._metrics.turns.labels(error.code).inc()
            raise

    @contextmanager
    def _waiting(self, session_id: str, turn: AskedTurn) -> Iterator[None]:
        """For the time of one who has joined."""
        try:
            yield
        finally:
            if turn.leave():
                gone = SessionClosed(f"all who asked for the turn of {session_id} have left")
                self._end(turn, gone)

    def _end(self, turn: AskedTurn, why: AgentServeError) -> None:
        turn.ended = why
        self._tasks.detach(end([turn.task]))

    async def _find(
        self, session_id: str, ask: TurnAsk, deadline: Deadline
    ) -> AskedTurn | TurnResult:
        """The turn, which the caller has joined; or what the same one was answered."""
        shot = await asyncio.to_thread(name_of_sent, ask.screenshot)
        lock = self._looks.setdefault(session_id, asyncio.Lock())
        while True:
            async with lock:
                record = await self._sessions.open(session_id)
                epoch = record.session.epoch if ask.epoch is None else ask.epoch
                key = turn_key(epoch, shot, ask.instruction)
                if epoch < record.session.epoch:
                    result = await self._log.answer(record, epoch, key)
                    self._metrics.turns.labels("replayed").inc()
                    return result
                if epoch > record.session.epoch:
                    raise stale(record, epoch)
                turn = self._asked.get(session_id)
                if turn is not None and turn.over(record):
                    turn = None
                if turn is None and self._free(record):
                    return self._begin(record, ask, key, deadline)
            if turn is None and await self._ended(record, key, deadline):
                continue
            if turn is None or turn.key != key:
                raise TurnInProgress(
                    f"another turn of session {session_id} is running",
                    hint="wait for its answer: a session runs one turn at a time",
                    details={"epoch": epoch},
                )
            if turn.ended is None:
                turn.join(goes_on=ask.goes_on)
                return turn
            await asyncio.wait({turn.task})

    def _free(self, record: SessionRecord) -> bool:
        """Whether a turn may begin. One that is shown as running here, and is not, is nobody's: the
        store was lost before it told that the turn had begun, or could be told that it failed."""
        running = record.running
        ours = running is not None and running.router == self._router
        return record.session.status is SessionStatus.IDLE or ours

    async def _ended(self, record: SessionRecord, key: str, deadline: Deadline) -> bool:
        """Whether the turn that ``record`` shows as running has ended, or goes on at another router
        for the same request: then after some waiting. Raises TurnTimeout."""
        running = record.running
        if running is not None and running.router != self._router and running.key == key:
            try:
                async with asyncio.timeout(deadline.remaining()):
                    await self._events.changed(record)
            except TimeoutError:
                raise deadline.exceeded() from None
            return True
        current = await self._sessions.open(record.session.id)
        return current.session.status is SessionStatus.IDLE

    # beginning

    def _begin(
        self, record: SessionRecord, ask: TurnAsk, key: str, deadline: Deadline
    ) -> AskedTurn:
        """Queue a turn, or let it run. Raises OverCapacity, Overloaded."""
        held = ExitStack()
        place = held.enter_context(self._admission.enter(record.tenant))
        turn = AskedTurn(record, key, place, deadline)
        turn.join(goes_on=ask.goes_on)
        session_id = record.session.id
        self._asked[session_id] = turn

        def over(_: asyncio.Task[TurnResult]) -> None:
            held.close()
            if self._asked.get(session_id) is turn:
                del self._asked[session_id]

        turn.task = self._tasks.start(watched_turn(record, self._answer(turn, record, ask)))
        # so the place is given back also when the task is cancelled before it begins
        turn.task.add_done_callback(over)
        return turn

    async def _answer(self, turn: AskedTurn, record: SessionRecord, ask: TurnAsk) -> TurnResult:
        clock = Clock()
        try:
            # a thread cannot be cancelled: it counts until it ends
            shot = await self._tasks.run(self._decode(ask.screenshot, record))
            turn.deadline.remaining()
            clock.decode_ms = clock.lap()
            return await self._run(record, ask, shot, turn, clock)
        except asyncio.CancelledError:
            self._metrics.turns.labels("cancelled").inc()
            if turn.ended is None:
                raise
            raise turn.ended from None

    async def _decode(self, screenshot: bytes | ScreenPatch, record: SessionRecord) -> Screenshot:
        space, limit = record.session.space, self._config.max_screenshot_bytes
        with phase(self._metrics, "decode"):
            async with self._decodes:
                return await asyncio.to_thread(open_sent, screenshot, space, max_bytes=limit)

    async def _start(
        self, turn: AskedTurn, record: SessionRecord, shot: Screenshot, request_id: str
    ) -> SessionRecord:
        """The record once the turn has its place, and the store knows. Raises TurnTimeout,
        Overloaded."""
        data = beginning(record, shot.sha256, request_id)
        started = EventDraft(EventType.TURN_STARTED, data)
        waits = not turn.place.runs
        first = EventDraft(EventType.TURN_QUEUED, data) if waits else started
        while True:
            try:
                record = await self._log.begin(record, first)
                break
            except VersionConflict:
                current = await self._sessions.open(record.session.id)
                if current.session.epoch != turn.epoch or not self._free(current):
                    raise _BegunElsewhere from None
                record = current.model_copy(update={"running": record.running})
        turn.version = record.version
        if not waits:
            return record
        turn.tell(TurnEventType.QUEUED, ahead=turn.place.ahead)
        await turn.place.ready(turn.deadline)
        return await self._log.tell(record, started)

    # running

    async def _run(
        self, record: SessionRecord, ask: TurnAsk, shot: Screenshot, turn: AskedTurn, clock: Clock
    ) -> TurnResult:
        running = RunningTurn(router=self._router, key=turn.key)
        record = record.model_copy(update={"running": running})
        storing: asyncio.Task[list[str]] | None = None
        try:
            with phase(self._metrics, "wait"):
                record = await self._start(turn, record, shot, ask.request_id)
            clock.wait_ms = clock.lap()
            blob = sha256_of(shot.model_image)
            pictures = dict.fromkeys((shot.model_image, shot.data))  # one, when they are the same
            # planned meanwhile: a synced write takes as long as all that a plan needs
            storing = asyncio.create_task(self._blobs.put(record.tenant, *pictures))
            plan_ms = clock.decode_ms + clock.lap()
            attempts = 0
            lost: set[str] = set()
            failed: set[str] = set()
            while True:
                attempts += 1
                with phase(self._metrics, "plan"):
                    record, worker = await self._sessions.pins.place(record, frozenset(lost))
                    tell(worker_id=worker.id)
                    queued_ms = clock.wait_ms + clock.lap()
                    planned = await self._planner.plan(record, ask, blob, shot, worker)
                    await storing
                plan_ms += clock.lap()
                turn.check()
                turn.tell(TurnEventType.STARTED, **started(planned.plan, worker, attempts))
                try:
                    plan, left = planned.plan, turn.deadline.remaining()
                    asked = host_turn(record, ask, plan, worker, left, self._config.max_turn_tokens)
                    async with self._planner.pictures(record, [*plan.prior, *plan.screen]):
                        with self._registry.busy(worker.id), phase(self._metrics, "program"):
                            answer = await self._hosts.turn(asked)
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
            held = await asyncio.to_thread(planned.held, answer)
            after = held.pieces if held else [*planned.plan.prior, *answer.pieces]
            result = turn_result(
                record, shot, planned.plan, answer, after, worker, timings, attempts
            )
            stored = TurnRecord(result.epoch, turn.key, result, answer.pieces, held)
            with phase(self._metrics, "store"):
                await self._log.complete(record, stored, after)
        except BaseException as error:  # cancellation included (release, shutdown)
            await to_its_end(self._undo(record, error, storing))
            raise
        self._metrics.turn_completed(result)
        # what is learned of a surface is written meanwhile: the client need not wait for it
        self._tasks.detach(self._planner.learn(planned, answer.pieces, worker))
        return result

    async def _undo(
        self, record: SessionRecord, error: BaseException, storing: asyncio.Task[list[str]] | None
    ) -> None:
        """The session must not stay running. Once it is closed, this was the last of it."""
        if storing is not None:
            await end([storing])
        if await self._log.fail(record, error):
            self._releases.over(record)

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
