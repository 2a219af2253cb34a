"""Where a pass-through request goes: to the worker its session is pinned to."""

from __future__ import annotations

import hashlib
import json
import time

from agentserve.core.sessions import Pin
from agentserve.core.workers import Worker, WorkerState
from agentserve.router.passthrough.body import Body
from agentserve.router.pins.pinning import Need, names_of, pick_for_name, why_lost
from agentserve.router.pins.service import none_for
from agentserve.router.sessions import SESSION_IDS, Sessions
from agentserve.router.store import PassPin, Store
from agentserve.router.workers.registry import WorkerRegistry

TOUCH_EVERY_S = 60.0
"""A pin's last use is kept to the minute, so that not every request writes."""


class Passing:
    """Chooses workers for the pass-through. A session's name (see naming) is pinned durably; when
    it is a REST session's id, it is that session's pin."""

    def __init__(self, store: Store, sessions: Sessions, registry: WorkerRegistry) -> None:
        self._store = store
        self._sessions = sessions
        self._registry = registry

    async def choose(
        self,
        tenant: str,
        name: str | None,
        body: Body,
        lost: frozenset[str] = frozenset(),
    ) -> Worker:
        """The worker for a tenant's request; ``lost`` names those that this request found dead.

        Raises NoWorker, UnknownModel, SessionClosed.
        """
        model = self._model(body)
        if name is None:
            return self._pick("", model, lost)
        # nobody asks the store for a session whose id would not look like this
        record = await self._store.get(name) if name.startswith(SESSION_IDS) else None
        # another tenant's session is to this one a name like any other
        if record is not None and record.tenant == tenant:
            record = await self._sessions.open(name)
            _, worker = await self._sessions.pins.place(record, lost)
            return worker
        return await self._by_name(f"{tenant}/{name}" if tenant else name, model, lost)

    def _model(self, body: Body) -> str | None:
        """What the body asks for, where the workers' models differ: to look into it costs time, as
        it may hold megabytes."""
        return _model_of(body.whole()) if self._registry.mixed else None

    async def _by_name(self, name: str, model: str | None, lost: frozenset[str]) -> Worker:
        known = await self._store.pass_pin(name)
        if known and model and not self._serves(known.pin, model):
            # one name for several models: each has its own pin
            name = f"{name}:{hashlib.sha256(model.encode()).hexdigest()[:32]}"
            known = await self._store.pass_pin(name)
        while True:
            now = time.time()
            worker = self._holder(known, lost)
            if worker is None:
                worker = self._pick(name, model, lost)
                generation = known.pin.generation + 1 if known else 1
                pin = Pin(worker_id=worker.id, boot_id=worker.boot_id, generation=generation)
            else:
                assert known is not None
                if now - known.used_at <= TOUCH_EVERY_S:
                    return worker
                pin = known.pin
            stored = await self._store.put_pass_pin(
                PassPin(name, pin, now), known.pin if known else None
            )
            if stored.pin == pin:
                return worker
            known = stored  # another request, maybe of another router, was first

    def _holder(self, known: PassPin | None, lost: frozenset[str]) -> Worker | None:
        """The worker of a pin, if it still serves there."""
        worker = self._registry.get(known.pin.worker_id) if known else None
        if known is None or worker is None or worker.id in lost or worker.drain is not None:
            return None
        return None if why_lost(known.pin, worker) else worker

    def _serves(self, pin: Pin, model: str) -> bool:
        """Whether the worker of a pin has the model, for all that is known."""
        worker = self._registry.get(pin.worker_id)
        return worker is None or model in names_of(worker) or worker.report is None

    def _pick(self, name: str, model: str | None, lost: frozenset[str]) -> Worker:
        workers = self._registry.snapshot({})
        ready = [w for w in workers if w.state is WorkerState.READY and w.id not in lost]
        # one that is being drained still serves when nobody else does: a name holds nothing there
        ready = [worker for worker in ready if worker.drain is None] or ready
        if model is not None:
            named = [worker for worker in ready if model in names_of(worker)]
            # a plain worker may have any
            ready = named or [worker for worker in ready if worker.report is None]
        worker = pick_for_name(name, ready)
        if worker is None:
            raise none_for(Need(model=model), workers)
        return worker


def _model_of(body: bytes) -> str | None:
    try:
        model = json.loads(body).get("model")
    except (ValueError, AttributeError):
        return None
    return model if isinstance(model, str) else None
