"""Which worker holds each session: where it is placed, why and when it moves.

A pin moves by a recorded event only, and whoever writes it last has read it last.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

from agentserve.core.errors import NoWorker, SessionClosed, UnknownModel, UnknownSession
from agentserve.core.events import EventType
from agentserve.core.sessions import Pin
from agentserve.core.workers import Worker
from agentserve.router.events import EventLog
from agentserve.router.metrics import Metrics
from agentserve.router.pins.pinning import Need, names_of, pick_worker, why_lost
from agentserve.router.pins.placement import Arrival
from agentserve.router.releasing import Releases
from agentserve.router.store import EventDraft, SessionRecord, Store, VersionConflict
from agentserve.router.surfaces import Surfaces
from agentserve.router.workers.registry import WorkerRegistry

log = logging.getLogger(__name__)
RETRY_AFTER_S = 2.0
_BATCH = 100


class Pins:
    """The pins of all sessions. ``placing`` is held while a session is placed, so that each placing
    of this router sees the ones before."""

    def __init__(
        self,
        store: Store,
        events: EventLog,
        registry: WorkerRegistry,
        surfaces: Surfaces,
        metrics: Metrics,
        releases: Releases,
        reopen: Callable[[str], Awaitable[SessionRecord]],
    ) -> None:
        """``reopen`` reads a session again; it raises SessionClosed and UnknownSession."""
        self._store = store
        self._events = events
        self._registry = registry
        self._surfaces = surfaces
        self._metrics = metrics
        self._releases = releases
        self._reopen = reopen
        self.placing = asyncio.Lock()

    async def place(
        self, record: SessionRecord, lost: frozenset[str] = frozenset()
    ) -> tuple[SessionRecord, Worker]:
        """The session and the worker that serves it now: its pinned one, or another to which it
        moves when that one is lost (``lost`` names workers that a turn just found dead).

        Raises NoWorker when none fits, SessionClosed when the session was closed meanwhile.
        """
        while True:
            worker, reason = self._held_by(record, lost)
            if reason is None:
                assert worker is not None
                return record, worker
            async with self.placing:
                target = await self._pick_for(record, lost)
                try:
                    return await self._move(record, target, reason), target
                except VersionConflict:
                    record = await self._reopen(record.session.id)

    def holder(self, record: SessionRecord) -> Worker | None:
        """The worker that ``place`` gives without moving the session, if it would."""
        worker, reason = self._held_by(record, frozenset())
        return worker if reason is None else None

    async def replace_pins(self, worker_id: str, boot_id: str) -> None:
        """Move every open session that is pinned to an earlier life of a worker. All are cold, so
        they spread anew; one that fits nowhere keeps its pin until its next turn."""
        stuck: set[str] = set()
        while True:
            records = await self._store.pinned(worker_id, _BATCH + len(stuck), but=boot_id)
            records = [record for record in records if record.session.id not in stuck]
            if not records:
                return
            for record in records:
                try:
                    await self.place(record)
                except (NoWorker, SessionClosed, UnknownSession) as error:
                    log.info("session %s stays where it is: %s", record.session.id, error)
                    stuck.add(record.session.id)

    async def another(self, record: SessionRecord) -> Worker:
        """A worker for a session that shall leave its present one. Raises NoWorker."""
        pin = record.session.pin
        assert pin is not None
        return await self._pick_for(record, frozenset({pin.worker_id}))

    async def hand_over(
        self, record: SessionRecord, worker: Worker, held: int, reason: str
    ) -> SessionRecord:
        """Move a session to a worker that has computed ``held`` tokens of its prompt already.

        Raises VersionConflict when the session has changed since ``record`` was read.
        """
        return await self._move(record, worker, reason, held)

    async def workers(self) -> list[Worker]:
        """All workers with their number of pins."""
        return self._registry.snapshot(await self._store.pin_loads())

    def _held_by(
        self, record: SessionRecord, lost: frozenset[str]
    ) -> tuple[Worker | None, str | None]:
        """The pinned worker, and why the session must leave it."""
        pin = record.session.pin
        assert pin is not None
        worker = self._registry.get(pin.worker_id)
        return worker, "lost" if pin.worker_id in lost else why_lost(pin, worker)

    async def _pick_for(self, record: SessionRecord, lost: frozenset[str]) -> Worker:
        """A worker for a session that moves."""
        session = record.session
        assert session.pin is not None
        arrival = Arrival(session.id, session.pin.held_tokens)
        need = Need(session.model, record.binding)
        return await self.pick(arrival, need, self._surfaces.shared(record), lost)

    async def pick(
        self,
        arrival: Arrival,
        need: Need,
        shared: Callable[[Worker], int],
        lost: frozenset[str] = frozenset(),
    ) -> Worker:
        """A worker for a session that is placed: see pinning.pick_worker; none of ``lost``. Raises
        NoWorker; UnknownModel for a session that was never placed."""
        workers = await self.workers()
        left = (worker for worker in workers if worker.id not in lost)
        worker = pick_worker(arrival, left, need, shared)
        if worker is None:
            raise none_for(need, workers)
        return worker

    async def _move(
        self, record: SessionRecord, worker: Worker, reason: str, held: int = 0
    ) -> SessionRecord:
        old = record.session.pin
        assert old is not None
        pin = Pin(
            worker_id=worker.id,
            boot_id=worker.boot_id,
            generation=old.generation + 1,
            expected_cached_tokens=held,
            held_tokens=old.held_tokens,
            moved=reason,
        )
        data = {**pin_data(pin), "from": old.worker_id, "reason": reason}
        moved = await self._events.update(
            record.with_session(pin=pin), EventDraft(EventType.PIN_MOVED, data)
        )
        self._metrics.pin_moves.labels(reason).inc()
        self._releases.over(moved, old)
        return moved


def pin_data(pin: Pin | None) -> dict[str, str | int]:
    """Of a pin, in its events."""
    assert pin is not None
    return {"worker": pin.worker_id, "boot_id": pin.boot_id, "generation": pin.generation}


def none_for(need: Need, workers: list[Worker]) -> NoWorker | UnknownModel:
    """Why no worker can serve, in words that name the models there are."""
    names = sorted({name for worker in workers for name in names_of(worker)})
    if need.model is not None and need.model not in names:
        message = f"no worker serves the model {need.model[:200]!r}"
        hint = f"served: {', '.join(names) or 'none'}"
        if need.binding is None and names and all(worker.report for worker in workers):
            return UnknownModel(message, hint=hint, details={"models": names})
        # it may be that of a worker that has not said yet what it serves, or is gone for a while
        return NoWorker(message, hint=hint, details={"models": names}, retry_after=RETRY_AFTER_S)
    states = ", ".join(f"{w.url} {w.state.value} ({_why_not(w)})" for w in workers)
    return NoWorker(
        "no worker is ready for this session",
        hint=states or "the router was started without workers",
        details={"models": names},
        retry_after=RETRY_AFTER_S,
    )


def _why_not(worker: Worker) -> str:
    return worker.reason or ("unfit" if worker.drain is None else "is being drained")
