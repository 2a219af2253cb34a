"""One turn of a session, from the screenshot to the action.

A turn runs to its end whether or not its client waits, and its answer is stored under its epoch:
asking again gives the stored answer, or joins the turn that still runs.
"""

from __future__ import annotations

import asyncio
import logging
import weakref
from dataclasses import dataclass

from agentserve.core.config import RouterConfig
from agentserve.core.errors import (
    AgentServeError,
    HostLost,
    NoWorker,
    SessionClosed,
    StaleEpoch,
    TurnInProgress,
    WorkerLost,
)
from agentserve.core.events import EventType
from agentserve.core.logs import tell
from agentserve.core.plans import Piece, VisualItem, num_tokens
from agentserve.core.sessions import SessionStatus, Timings, TurnResult
from agentserve.core.workers import Worker
from agentserve.router.asking import TurnAsk, host_turn, turn_key
from agentserve.router.blobs import BlobStore
from agentserve.router.events import EventLog
from agentserve.router.hosts import HostPool
from agentserve.router.metrics import Metrics
from agentserve.router.planning import Planner
from agentserve.router.results import turn_result
from agentserve.router.sessions import Sessions, now
from agentserve.router.store import (
    EventDraft,
    RunningTurn,
    SessionRecord,
    Store,
    TurnRecord,
    VersionConflict,
)
from agentserve.router.tasks import Tasks
from agentserve.router.telemetry import Clock, phase, watched_turn
from agentserve.router.workers import WorkerRegistry
from agentserve.vision.screenshots import Screenshot, open_screenshot

log = logging.getLogger(__name__)
_TOLD = {
    "turn", "epoch", "action", "invalid", "usage", "timings", "move", "regions",
    "live_visual_tokens", "loss", "rebuilt",
}  # fmt: skip
"""Of a turn's result, in its event."""
MAX_DECODES = 4
"""Screenshots decoded at once: the largest one allowed takes some 250 MB while it is."""


@dataclass
class _Running:
    key: str
    task: asyncio.Task[TurnResult]
    closed: bool = False
    """The session was released or deleted: the turn is cancelled."""


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
        self._tasks = Tasks()
        self._decodes = asyncio.Semaphore(MAX_DECODES)
        self._running: dict[str, _Running] = {}
        # Only while somebody asks: a lock lives as long as a task holds it.
        self._admissions: weakref.WeakValueDictionary[str, asyncio.Lock] = (
            weakref.WeakValueDictionary()
        )

    async def ask(self, session_id: str, ask: TurnAsk) -> TurnResult:
        """Run a turn, or answer what the same request was answered before.

        Raises UnknownSession, SessionClosed, BadScreenshot, StaleEpoch and TurnInProgress with
        nothing changed; everything else (NoWorker, WorkerLost, TurnTimeout, ProgramFailed …)
        leaves the session idle at the same epoch.
        """
        try:
            return await self._tasks.run(watched_turn(session_id, self._answer(session_id, ask)))
        except AgentServeError as error:
            self._metrics.turns.labels(error.code).inc()
            raise

    def close(self, session_id: str) -> None:
        """End the running turn of a session that was just released or deleted."""
        if running := self._running.get(session_id):
            running.closed = True
            running.task.cancel()

    async def heard(self, session_id: str) -> None:
        """Another router has changed a session. Raises StorageFailed."""
        self._events.wake(session_id)
        if session_id in self._running:
            record = await self._store.get(session_id)
            if record is None or not record.open:
                self.close(session_id)

    async def stop(self) -> None:
        await self._tasks.stop()

    # admission

    async def _answer(self, session_id: str, ask: TurnAsk) -> TurnResult:
        clock = Clock()
        tell(session_id=session_id)
        record = await self._sessions.open(session_id)
        with phase(self._metrics, "decode"):
            async with self._decodes:
                shot = await asyncio.to_thread(
                    open_screenshot,
                    ask.screenshot,
                    record.session.space,
                    max_bytes=self._config.max_screenshot_bytes,
                )
        admitted = await self._admit(session_id, ask, shot)
        if isinstance(admitted, TurnResult):
            self._metrics.turns.labels("replayed").inc()
            return admitted
        running = self._running[session_id]
        try:
            with self._metrics.running_turns.track_inprogress():
                return await self._run(admitted, ask, shot, running.key, clock)
        except asyncio.CancelledError:
            if not running.closed:
                raise
            raise SessionClosed(
                f"session {session_id} was released during the turn", hint="create a new session"
            ) from None
        finally:
            if self._running.get(session_id) is running:
                del self._running[session_id]

    async def _admit(
        self, session_id: str, ask: TurnAsk, shot: Screenshot
    ) -> SessionRecord | TurnResult:
        """The session, now running this turn; or the answer of the same turn asked before."""
        lock = self._admissions.setdefault(session_id, asyncio.Lock())
        while True:
            async with lock:
                record = await self._sessions.open(session_id)
                epoch = record.session.epoch if ask.epoch is None else ask.epoch
                key = turn_key(epoch, shot.sha256, ask.instruction)
                if epoch < record.session.epoch:
                    return await self._stored(record, epoch, key)
                if epoch > record.session.epoch:
                    raise _stale(record, epoch)
                if record.session.status is SessionStatus.IDLE or self._orphaned(record):
                    try:
                        record = await self._begin(record, shot, key, ask.request_id)
                    except VersionConflict:
                        continue
                    task = asyncio.current_task()
                    assert task is not None
                    self._running[session_id] = _Running(key, task)
                    return record
                running = self._running.get(session_id)
            if running is None and await self._ended(record, key):
                continue
            if running is None or running.key != key:
                raise TurnInProgress(
                    f"another turn of session {session_id} is running",
                    hint="wait for its answer: a session runs one turn at a time",
                    details={"epoch": epoch},
                )
            await asyncio.wait({running.task})
            if running.task.cancelled():
                raise SessionClosed(f"the turn of session {session_id} was cancelled")
            return running.task.result().model_copy(update={"replayed": True})

    def _orphaned(self, record: SessionRecord) -> bool:
        """Whether a turn of this router is shown as running and is not: the store was lost before
        it told that the turn had begun, or could be told that it had failed."""
        running = record.running
        ours = running is not None and running.router == self._router
        return ours and record.session.id not in self._running

    async def _ended(self, record: SessionRecord, key: str) -> bool:
        """Whether the turn that ``record`` shows as running has ended, or goes on at another router
        for the same request: then after some waiting."""
        running = record.running
        if running is not None and running.router != self._router and running.key == key:
            await self._events.changed(record)
            return True
        current = await self._sessions.open(record.session.id)
        return current.session.status is SessionStatus.IDLE

    async def _stored(self, record: SessionRecord, epoch: int, key: str) -> TurnResult:
        turn = await self._store.turn(record.session.id, epoch)
        if turn is None or turn.key != key:
            raise _stale(record, epoch)
        return turn.result.model_copy(update={"replayed": True})

    async def _begin(
        self, record: SessionRecord, shot: Screenshot, key: str, request_id: str
    ) -> SessionRecord:
        data = {
            "epoch": record.session.epoch,
            "turn": record.session.turns,
            "screenshot": shot.sha256,
            "request_id": request_id,
        }
        running = RunningTurn(router=self._router, key=key)
        record = record.model_copy(update={"running": running})
        return await self._events.update(
            record.with_session(status=SessionStatus.RUNNING, last_active_at=now()),
            EventDraft(EventType.TURN_STARTED, data),
        )

    # running

    async def _run(
        self, record: SessionRecord, ask: TurnAsk, shot: Screenshot, key: str, clock: Clock
    ) -> TurnResult:
        tell(turn=record.session.turns)
        try:
            with phase(self._metrics, "store"):
                blob = await self._blobs.put(shot.model_image)
                if blob != shot.sha256:
                    await self._blobs.put(shot.data)
            plan_ms = clock.lap()
            attempts = 0
            lost: set[str] = set()
            failed: set[str] = set()
            while True:
                attempts += 1
                with phase(self._metrics, "plan"):
                    record, worker = await self._sessions.pins.place(record, frozenset(lost))
                    tell(worker_id=worker.id)
                    planned = await self._planner.plan(record, ask, blob, shot.model_image, worker)
                try:
                    queued_ms = clock.lap()
                    with self._registry.busy(worker.id), phase(self._metrics, "program"):
                        answer = await self._hosts.turn(
                            host_turn(record, ask, planned.plan, worker, self._config)
                        )
                    self._registry.answered(worker.id)
                    break
                except (WorkerLost, HostLost) as error:
                    if error.code in failed:
                        raise
                    failed.add(error.code)
                    record = await self._retry(record, worker, error, lost)
            program_ms = clock.lap()
            timings = Timings(
                queue_ms=queued_ms, plan_ms=plan_ms, program_ms=program_ms, total_ms=clock.total()
            )
            held = await asyncio.to_thread(planned.held, answer)
            after = held.pieces if held else [*planned.plan.prior, *answer.pieces]
            result = turn_result(
                record, shot, planned.plan, answer, after, worker, timings, attempts
            )
            turn = TurnRecord(result.epoch, key, result, answer.pieces, held)
            with phase(self._metrics, "store"):
                await self._complete(record, turn, after)
        except BaseException as error:  # cancellation included (release, shutdown)
            # the session must not stay running
            await self._fail(record, error)
            raise
        self._metrics.turn_completed(result)
        await self._planner.learn(planned, answer.pieces, worker)
        return result

    async def _retry(
        self, record: SessionRecord, worker: Worker, error: AgentServeError, lost: set[str]
    ) -> SessionRecord:
        """Make ready for the second attempt: on another worker when this one was lost. Raises
        ``error`` when there is no other."""
        log.warning("the turn is begun again: %s", error)
        if isinstance(error, WorkerLost):
            lost.add(worker.id)
            self._registry.failed(worker.id)
            await self._registry.check(worker.id)
            try:
                record, _ = await self._sessions.pins.place(record, frozenset(lost))
            except NoWorker:
                raise error from None
        data = {"reason": error.code, "message": error.message, "worker": worker.id}
        while True:
            try:
                record = await self._events.update(record, EventDraft(EventType.TURN_RETRIED, data))
                break
            except VersionConflict:
                record = await self._sessions.open(record.session.id)
        self._metrics.turn_retries.labels(error.code).inc()
        return record

    async def _complete(self, record: SessionRecord, turn: TurnRecord, after: list[Piece]) -> None:
        result = turn.result
        held = num_tokens(after)
        screens = [p.turn for p in after if isinstance(p, VisualItem)]
        data = result.model_dump(mode="json", include=_TOLD)
        while True:
            session = record.session
            pin = session.pin
            if pin is not None and pin.boot_id == result.worker.boot_id:
                told = {
                    "expected_cached_tokens": held,
                    "held_tokens": held,
                    "loss": result.loss,
                }
                pin = pin.model_copy(update=told)
            done = record.with_session(
                status=SessionStatus.IDLE,
                last_active_at=now(),
                epoch=result.epoch + 1,
                turns=result.turn + 1,
                pin=pin,
                usage=session.usage.plus(result.usage),
            )
            oldest = min(screens, default=result.turn + 1)
            done = done.model_copy(update={"running": None, "oldest_screen": oldest})
            try:
                event = EventDraft(EventType.TURN_COMPLETED, data)
                await self._events.update(done, event, turn=turn)
                return
            except VersionConflict:  # the pin was moved, the session closed, or taken from us
                current = await self._sessions.open(session.id)
                if current.running != record.running:
                    raise TurnInProgress(
                        f"session {session.id} was taken over by another router while this one "
                        "was silent",
                        hint="ask again with the session's current epoch",
                        details={"epoch": current.session.epoch},
                    ) from None
                record = current

    async def _fail(self, record: SessionRecord, error: BaseException) -> None:
        """Back to idle at the same epoch, unless the session was closed meanwhile."""
        expected = isinstance(error, AgentServeError)
        log.warning("the turn failed: %s", error if expected else type(error).__name__)
        data = {
            "epoch": record.session.epoch,
            "code": error.code if expected else "internal",
            "message": error.message if expected else type(error).__name__,
        }
        while True:
            current = await self._store.get(record.session.id)
            if (
                current is None
                or current.session.status is not SessionStatus.RUNNING
                or current.running != record.running
            ):
                return
            try:
                current = current.model_copy(update={"running": None})
                await self._events.update(
                    current.with_session(status=SessionStatus.IDLE, last_active_at=now()),
                    EventDraft(EventType.TURN_FAILED, data),
                )
                return
            except VersionConflict:
                continue


def _stale(record: SessionRecord, epoch: int) -> StaleEpoch:
    current = record.session.epoch
    return StaleEpoch(
        f"epoch {epoch} is not the session's current one, which is {current}",
        hint="take a new screenshot and send it with the current epoch",
        details={"epoch": current},
    )
