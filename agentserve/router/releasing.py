"""Telling workers which sessions are over, so that their KV goes at once.

By the way: nobody waits for it and nothing fails by it. What a worker is not told, or does not do,
it evicts by itself once it wants the room.
"""

from __future__ import annotations

import logging

from agentserve.core.logs import tell
from agentserve.core.sessions import Pin
from agentserve.core.tracing import begin_anew
from agentserve.core.workers import OverSession
from agentserve.router.forking import begun_by_forks
from agentserve.router.metrics import Metrics
from agentserve.router.store import SessionRecord
from agentserve.router.surfaces import Surfaces
from agentserve.router.tasks import Tasks
from agentserve.router.workers.registry import WorkerRegistry

log = logging.getLogger(__name__)
BATCH = 128
"""Sessions a message: the worker does nothing else meanwhile."""
MAX_WAITING = 16_384
"""Sessions of one worker that it is still to be told of; of more it is not."""


class Releases:
    """One message after the other to each worker, each of all that are over by then."""

    def __init__(self, registry: WorkerRegistry, surfaces: Surfaces, metrics: Metrics) -> None:
        self._registry = registry
        self._surfaces = surfaces
        self._metrics = metrics
        self._waiting: dict[tuple[str, str], dict[str, OverSession]] = {}
        """(Worker, its life) -> sessions by id; a task sees to each."""
        self._tasks = Tasks()

    def closed(self, record: SessionRecord) -> None:
        """A session takes no more turns. While one still runs nothing is done: who runs it calls
        ``over`` at its end."""
        if record.running is None:
            self.over(record)

    def over(self, record: SessionRecord, pin: Pin | None = None) -> None:
        """A session has no more turns on the worker of ``pin``; None: its present one."""
        pin = pin or record.session.pin
        worker = self._registry.get(pin.worker_id) if pin is not None else None
        if pin is None or worker is None or worker.report is None:
            return
        if not worker.report.releases or worker.boot_id != pin.boot_id:
            return
        place = (worker.id, worker.boot_id)
        begun = place in self._waiting
        waiting = self._waiting.setdefault(place, {})
        if len(waiting) >= MAX_WAITING:
            log.warning("worker %s is told of so many ended sessions that it misses some", place[0])
            return
        waiting[record.session.id] = OverSession(
            id=record.session.id,
            keep=self._surfaces.begun(record, worker),
            forked=begun_by_forks(record),
        )
        if not begun:
            self._tasks.detach(self._tell(place))

    async def stop(self) -> None:
        await self._tasks.stop()

    async def _tell(self, place: tuple[str, str]) -> None:
        begin_anew()  # it outlives the request that ended a session
        tell(request_id=None, session_id=None, worker_id=place[0])
        waiting = self._waiting[place]
        try:
            while waiting:
                batch = list(waiting.values())[:BATCH]
                for one in batch:
                    del waiting[one.id]
                released = await self._registry.release(*place, batch)
                if released is None:
                    return
                self._metrics.released(place[0], released.freed_tokens)
        finally:
            del self._waiting[place]
