"""Waiting for a place among what runs: the asyncio edge of the fair queue."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from agentserve.core.config import RouterConfig
from agentserve.core.deadlines import Deadline
from agentserve.core.errors import AgentServeError, OverCapacity, Overloaded
from agentserve.core.tenants import KeyLimits
from agentserve.router.admission.fair_queue import (
    Entry,
    FairQueue,
    LimitsOf,
    QueueFull,
    State,
    TenantLimits,
)

MIN_RETRY_AFTER_S = 1.0
MAX_RETRY_AFTER_S = 30.0
_RECENT = 0.1
"""Weight of the last place that became free in the mean of how long one is held."""


class Place:
    """One that runs, or waits for it, within ``Admission.enter``."""

    def __init__(self, admission: Admission, entry: Entry) -> None:
        self._admission = admission
        self._entry = entry
        self._changed = asyncio.Event()
        self.waited = not self.runs
        """Whether it had to wait at all."""
        self.ahead = entry.ahead
        """Of the same tenant, those that waited when it came."""
        self._since = time.monotonic()

    @property
    def runs(self) -> bool:
        return self._entry.state is State.RUNNING

    async def ready(self, deadline: Deadline) -> None:
        """Returns when it is its turn. Raises TurnTimeout, and Overloaded when it was pushed out of
        a full queue."""
        try:
            while self._entry.state is State.QUEUED:
                async with asyncio.timeout(deadline.remaining()):
                    await self._changed.wait()
        except TimeoutError:
            raise deadline.exceeded() from None
        if self._entry.state is State.PUSHED_OUT:
            raise self._admission.overloaded(self._admission.queued)
        deadline.remaining()

    def told(self) -> None:
        """The queue has changed its state."""
        self._since = time.monotonic()
        self._changed.set()

    def held_s(self) -> float:
        """How long it has run."""
        return time.monotonic() - self._since


class Admission:
    """One class of work: ``with admission.enter(tenant) as place: await place.ready(deadline)``."""

    def __init__(
        self, name: str, max_running: int, max_queued: int, limits_of: LimitsOf | None = None
    ) -> None:
        """``name``: in errors and metrics."""
        self.name = name
        limits_of = limits_of or (lambda tenant: TenantLimits())
        self._queue = FairQueue(max_running, max_queued, limits_of, self._tell)
        self._waiting: dict[Entry, Place] = {}
        self._mean_held_s = 0.0

    @property
    def running(self) -> int:
        return self._queue.running

    @property
    def queued(self) -> int:
        return self._queue.queued

    @contextmanager
    def enter(self, tenant: str) -> Iterator[Place]:
        """A place, or the last one in the tenant's queue, until the block is left, however that
        is. Raises OverCapacity, Overloaded when that queue is full."""
        try:
            entry = self._queue.enter(tenant)
        except QueueFull as full:
            raise self._refusal(full) from None
        place = Place(self, entry)
        self._waiting[entry] = place
        try:
            yield place
        finally:
            if place.runs:
                self._measure(place.held_s())
            del self._waiting[entry]
            self._queue.leave(entry)

    def overloaded(self, ahead: int) -> Overloaded:
        return Overloaded(
            f"the router runs and queues as many {self.name} as it may",
            hint="ask again after Retry-After; nothing was begun",
            details={"queued": ahead},
            retry_after=self._retry_after(ahead, self.running),
        )

    def _refusal(self, full: QueueFull) -> AgentServeError:
        if full.whose == "total":
            return self.overloaded(full.ahead)
        return OverCapacity(
            f"{full.ahead} {self.name} of this tenant wait already, as many as may",
            hint="ask again after Retry-After; nothing was begun",
            details={"queued": full.ahead},
            retry_after=self._retry_after(full.ahead, full.running),
        )

    def _retry_after(self, ahead: int, running: int) -> float:
        """When those that wait will have got a place, if places become free as they did of late."""
        seconds = ahead * self._mean_held_s / max(1, running)
        return min(max(MIN_RETRY_AFTER_S, seconds), MAX_RETRY_AFTER_S)

    def _measure(self, held_s: float) -> None:
        weight = _RECENT if self._mean_held_s else 1.0
        self._mean_held_s += weight * (held_s - self._mean_held_s)

    def _tell(self, entry: Entry) -> None:
        if (place := self._waiting.get(entry)) is not None:
            place.told()


@dataclass(frozen=True)
class Admissions:
    """The classes of work that a router limits.

    Turns run on program hosts, one thread each: no more of them run than the hosts have threads,
    so that no turn waits behind this queue in another one. Pass-through requests need no host, and
    a worker batches many of them; they have places of their own, so that neither class can take the
    other's. Both meet on the workers, which schedule what runs there token by token. Their limit is
    there because each holds its body and a connection. A tenant's limits hold in each class.
    """

    turns: Admission
    requests: Admission

    @classmethod
    def of(cls, config: RouterConfig, own_limits: Callable[[str], KeyLimits]) -> Admissions:
        """``own_limits``: those of a tenant's key, which come before everybody's."""

        def limits_of(tenant: str) -> TenantLimits:
            own = own_limits(tenant)
            return TenantLimits(
                own.running or config.max_running_per_tenant,
                own.queued or config.max_queued_per_tenant,
            )

        return cls(
            turns=Admission("turns", config.running_turns, config.max_queued_turns, limits_of),
            requests=Admission(
                "requests", config.max_running_requests, config.max_queued_requests, limits_of
            ),
        )
