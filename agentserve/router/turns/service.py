"""One turn of a session, from the screenshot to the action.

A turn waits for its place (router.admission), then runs to its end whether or not its client waits,
and its answer is stored under its epoch: asking again gives the stored answer, or joins the turn
that still waits or runs. What becomes of one that nobody waits for any more: see the module asked.
"""

from __future__ import annotations

import asyncio
import weakref
from collections.abc import AsyncGenerator, Iterator
from contextlib import ExitStack, contextmanager

from agentserve.core.config import MIB, RouterConfig
from agentserve.core.deadlines import Deadline
from agentserve.core.errors import AgentServeError, SessionClosed, TurnInProgress
from agentserve.core.events import TurnEventType
from agentserve.core.plans import Sha256
from agentserve.core.sessions import SessionStatus, TurnResult
from agentserve.router.admission import Admission
from agentserve.router.events import EventLog
from agentserve.router.metrics import Metrics
from agentserve.router.sessions import Sessions
from agentserve.router.store import SessionRecord, Store
from agentserve.router.tasks import Tasks, end
from agentserve.router.turns.asked import AskedTurn, Told
from agentserve.router.turns.asking import TurnAsk, turn_key
from agentserve.router.turns.log import TurnLog, stale
from agentserve.router.turns.running import BegunElsewhere, TurnRunner, is_free
from agentserve.router.turns.telemetry import watched_turn
from agentserve.vision.patches import ScreenPatch, name_of_sent

HASHED_HERE = MIB
"""Bytes of a screenshot from which on it is hashed in a thread: before, that takes as long."""


class Turns:
    """The service behind ``POST /v1/sessions/{id}/turns``."""

    def __init__(
        self,
        config: RouterConfig,
        store: Store,
        events: EventLog,
        sessions: Sessions,
        log: TurnLog,
        runner: TurnRunner,
        metrics: Metrics,
        admission: Admission,
        router: str,
    ) -> None:
        """``router`` names this process in the store."""
        self._router = router
        self._config = config
        self._store = store
        self._events = events
        self._sessions = sessions
        self._log = log
        self._runner = runner
        self._metrics = metrics
        self._admission = admission
        self._tasks = Tasks()
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
                    except BegunElsewhere:
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
                        except BegunElsewhere:
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
        await self._runner.stop()

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
        shot = await _name(ask.screenshot)
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
                if turn is None and is_free(record, self._router):
                    return self._begin(record, ask, shot, key, deadline)
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
        self, record: SessionRecord, ask: TurnAsk, shot: Sha256, key: str, deadline: Deadline
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

        running = self._runner.run(turn, record, ask, shot)
        turn.task = self._tasks.start(watched_turn(record, running))
        # so the place is given back also when the task is cancelled before it begins
        turn.task.add_done_callback(over)
        return turn


async def _name(sent: bytes | ScreenPatch) -> Sha256:
    if isinstance(sent, ScreenPatch) or len(sent) < HASHED_HERE:
        return name_of_sent(sent)
    return await asyncio.to_thread(name_of_sent, sent)
