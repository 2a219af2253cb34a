"""Emptying a worker: each session is computed on another one first, then its pin moves.

A session that runs a turn stays until the turn is answered. One whose record changes while its
prompt is being computed elsewhere is done again: what was computed is a prefix of what it has now.

Which workers are drained, and which router sees to it, is in the store: it outlives a router, and
all that share the store give such a worker no new sessions.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator

from agentserve.core.errors import AgentServeError, UnknownWorker
from agentserve.core.hosting import HostWarming
from agentserve.core.logs import tell
from agentserve.core.plans import num_tokens
from agentserve.core.sessions import SessionStatus
from agentserve.core.tracing import begin_anew
from agentserve.core.workers import Drain, Worker
from agentserve.router.hosts import HostPool
from agentserve.router.pins.service import Pins
from agentserve.router.replica import Replica
from agentserve.router.sessions import now
from agentserve.router.store import SessionRecord, Store, VersionConflict
from agentserve.router.tasks import end, forever
from agentserve.router.turns.planning import Planner
from agentserve.router.workers.registry import WorkerRegistry

log = logging.getLogger(__name__)
AT_ONCE = 4
"""Sessions whose prompts are computed elsewhere at a time: the targets serve turns meanwhile."""
PAUSE_S = 0.25
"""Between two looks at what is left, when nothing could be moved."""
DONE_PAUSE_S = 2.0
"""The same once nothing is left: a session that was just being created may still appear."""
LOOK_EVERY_S = 1.0
REASON = "drained"


class Drains:
    """The drains of a router's workers, its own and other routers'."""

    def __init__(
        self,
        store: Store,
        pins: Pins,
        registry: WorkerRegistry,
        hosts: HostPool,
        planner: Planner,
        replica: Replica,
        timeout_s: float,
    ) -> None:
        """``timeout_s``: the longest computation of one prompt."""
        self._store = store
        self._pins = pins
        self._registry = registry
        self._hosts = hosts
        self._planner = planner
        self._replica = replica
        self._timeout_s = timeout_s
        self._running: dict[str, asyncio.Task[None]] = {}
        self._changed = asyncio.Condition()
        self._looking = asyncio.Lock()
        self._looker: asyncio.Task[None] | None = None

    async def open(self) -> None:
        """Go on with what the store knows. Raises StorageFailed."""
        await self._look()
        self._looker = asyncio.create_task(forever(self._look, LOOK_EVERY_S))

    async def close(self) -> None:
        tasks = [*self._running.values(), *([self._looker] if self._looker else [])]
        await end(tasks)

    def known(self, worker_id: str) -> Worker:
        """Raises UnknownWorker."""
        worker = self._registry.get(worker_id)
        if worker is None:
            raise UnknownWorker(
                f"there is no worker {worker_id[:64]!r}", hint="GET /v1/workers lists them"
            )
        return worker

    async def start(self, worker_id: str) -> Worker:
        """Let a worker take no new sessions, and begin to move those that it has. A drain that has
        begun already goes on. Raises UnknownWorker, StorageFailed."""
        self.known(worker_id)
        if worker_id not in await self._store.drains():
            await self._store.put_drain(worker_id, self._replica.id)
        await self._look()
        return self.known(worker_id)

    async def undo(self, worker_id: str) -> Worker:
        """Let a worker take sessions again. What was moved stays where it is. Raises
        UnknownWorker, StorageFailed."""
        self.known(worker_id)
        await self._store.drop_drain(worker_id)
        await self._look()
        return self.known(worker_id)

    async def follow(self, worker_id: str) -> AsyncIterator[Drain]:
        """How far a drain is, whenever that changes, until it is done or undone."""
        told: Drain | None = None
        while True:
            async with self._changed:
                drain = self.known(worker_id).drain
                if drain == told and drain is not None:
                    await self._changed.wait()
                    continue
            if drain is None:
                return
            yield drain
            if drain.done:
                return
            told = drain

    # all workers

    async def _look(self) -> None:
        """Do what the store says."""
        async with self._looking:
            drains = await self._store.drains()
            alive = await self._replica.alive()
            workers = await self._pins.workers()
            for gone in self._running.keys() - {worker.id for worker in workers}:
                await self._end(gone)
            for worker in workers:
                owner = drains.get(worker.id)
                if owner is None:
                    await self._end(worker.id)
                    continue
                if owner not in alive:
                    owner = self._replica.id
                    await self._store.put_drain(worker.id, owner)
                await self._go_on(worker, owner)

    async def _go_on(self, worker: Worker, owner: str) -> None:
        drain = worker.drain or Drain(since=now(), left=worker.sessions)
        if owner != self._replica.id:
            left = worker.sessions
            told = {"left": left, "done": not left, "reason": "another router sees to it"}
            drain = drain.model_copy(update=told)
        if drain != worker.drain:
            await self._tell(worker.id, drain)
        if owner == self._replica.id and worker.id not in self._running:
            task = asyncio.create_task(self._drain(worker.id))
            self._running[worker.id] = task

    async def _end(self, worker_id: str) -> None:
        if (task := self._running.pop(worker_id, None)) is not None:
            await end([task])
        worker = self._registry.get(worker_id)
        if worker is not None and worker.drain is not None:
            await self._tell(worker_id, None)

    # one worker

    async def _drain(self, worker_id: str) -> None:
        begin_anew()  # it outlives the request that asked for it
        tell(request_id=None, worker_id=worker_id)
        while (worker := self._registry.get(worker_id)) is not None:
            try:
                if await self._round(worker_id):
                    continue
            except Exception:  # the process edge: a full disk now must not end the drain for good
                log.exception("the drain goes on after a failure")
            done = worker.drain is not None and worker.drain.done
            await asyncio.sleep(DONE_PAUSE_S if done else PAUSE_S)

    async def _round(self, worker_id: str) -> bool:
        """Whether a session was moved."""
        left = await self._left(worker_id)
        drain = self.known(worker_id).drain
        assert drain is not None
        if not left:
            await self._tell(worker_id, drain.model_copy(update=_DONE))
            return False
        records = await self._idle(worker_id)
        reason = "" if records else "turns are running"
        moved = 0
        for start in range(0, len(records), AT_ONCE):
            batch = records[start : start + AT_ONCE]
            done = await asyncio.gather(*(self._hand_over(record) for record in batch))
            tokens = [each for each in done if isinstance(each, int)]
            reason = next((each for each in done if isinstance(each, str)), reason)
            moved += len(tokens)
            drain = drain.model_copy(
                update={
                    "left": await self._left(worker_id),
                    "moved": drain.moved + len(tokens),
                    "warmed_tokens": drain.warmed_tokens + sum(tokens),
                    "reason": reason,
                    "done": False,
                }
            )
            await self._tell(worker_id, drain)
        if not records:
            await self._tell(worker_id, drain.model_copy(update={"left": left, "reason": reason}))
        return moved > 0

    async def _hand_over(self, record: SessionRecord) -> int | str:
        """How many tokens the session's new worker has computed; or why it did not move."""
        tell(session_id=record.session.id)
        try:
            target = await self._pins.another(record)
            pieces = await self._planner.held(record)
            if pieces:
                warming = HostWarming(
                    session_id=record.session.id,
                    tenant=record.tenant,
                    request_id=f"drain-{record.session.id}",
                    pieces=pieces,
                    family=record.binding.family,
                    worker_url=target.url,
                    tokenizer_sha256=record.binding.tokenizer_sha256,
                    timeout_s=self._timeout_s,
                    worker_id=target.id,
                    cache_salt=record.salt,
                )
                async with self._planner.pictures(record, pieces):
                    await self._hosts.warm(warming)
            held = num_tokens(pieces)
            await self._pins.hand_over(record, target, held, REASON)
            log.info("the session goes to worker %s, which has %d tokens of it", target.id, held)
        except VersionConflict:
            return "a session changed meanwhile"
        except AgentServeError as error:
            return error.message
        return held

    async def _idle(self, worker_id: str) -> list[SessionRecord]:
        pinned = await self._pinned(worker_id)
        return [one for one in pinned if one.session.status is SessionStatus.IDLE]

    async def _left(self, worker_id: str) -> int:
        load = (await self._store.pin_loads()).get(worker_id)
        return 0 if load is None else load.sessions

    async def _pinned(self, worker_id: str) -> list[SessionRecord]:
        return await self._store.pinned(worker_id, await self._left(worker_id))

    async def _tell(self, worker_id: str, drain: Drain | None) -> None:
        async with self._changed:
            self._registry.set_drain(worker_id, drain)
            self._changed.notify_all()


_DONE = {"left": 0, "reason": "", "done": True}
