"""Who may run next: limits on what runs and what waits, and a fair order between tenants. Pure.

Start-time fair queueing. Within a tenant the order is that of arrival. Between tenants each start
counts the same whatever its length, which nobody knows before: the tenant whose next start is due
first, by how many it has had for its weight, goes first. So while two tenants f and g wait without
a break and neither is held by its own running limit, their starts differ by no more than

    | starts(f) / weight(f) - starts(g) / weight(g) |  <=  1 / weight(f) + 1 / weight(g)

and one that comes to a queue is passed by every other tenant of its weight once at most. A tenant
whose work takes long holds its places long: its running limit is what bounds that. Credit is not
saved up: who did not wait, or was held by its own limit, begins where the others are.

A full queue is shared alike: one that comes pushes out the last of the tenant that has most
waiting, unless its own tenant would have as much then. So nobody is kept out by another's crowd.

Every operation takes O(log n) time, n being the tenants, amortised.
"""

from __future__ import annotations

import heapq
import itertools
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum
from typing import Literal

from agentserve.router.admission.lengths import Lengths


@dataclass(frozen=True)
class TenantLimits:
    """What one tenant may have in each class of work. 0: as much as there is."""

    max_running: int = 0
    max_queued: int = 0
    weight: float = 1.0
    """Its share of the places while others wait too. More than 0."""


LimitsOf = Callable[[str], TenantLimits]


class State(Enum):
    QUEUED = "queued"
    RUNNING = "running"
    PUSHED_OUT = "pushed_out"
    GONE = "gone"


class QueueFull(Exception):
    """``whose`` limit kept one out; ``ahead`` of it wait there, ``running`` run there."""

    def __init__(self, whose: Literal["tenant", "total"], ahead: int, running: int) -> None:
        super().__init__(f"{ahead} wait")
        self.whose: Literal["tenant", "total"] = whose
        self.ahead = ahead
        self.running = running


@dataclass(eq=False)
class Entry:
    """One that runs or waits, until it leaves."""

    tenant: _Tenant = field(repr=False)
    ahead: int
    """Of its tenant, those that waited when it came."""
    state: State = State.QUEUED


@dataclass(eq=False)
class _Tenant:
    name: str
    limits: TenantLimits
    waiting: OrderedDict[Entry, None] = field(default_factory=OrderedDict)
    running: int = 0
    finish: float = 0.0
    """Where its last start ended in virtual time, in ``period``."""
    period: int = -1
    in_line: bool = False
    resting: bool = False


_Line = list[tuple[float, int, _Tenant]]


class FairQueue:
    """See the module. ``limits_of`` is asked at each arrival: limits may change. ``tell`` is called
    with each entry whose state another one's coming or leaving has changed."""

    def __init__(
        self,
        max_running: int,
        max_queued: int,
        limits_of: LimitsOf,
        tell: Callable[[Entry], None],
    ) -> None:
        self.max_running = max_running
        self.max_queued = max_queued
        self.running = 0
        self.queued = 0
        self._limits_of = limits_of
        self._tell = tell
        self._tenants: dict[str, _Tenant] = {}
        self._lengths: Lengths[_Tenant] = Lengths()
        self._line: _Line = []
        """Tenants that wait and are below their own limit, by when their next start is due."""
        self._resting: _Line = []
        """Tenants that have had more than others just now: remembered until these have caught up,
        so that leaving and coming again is no way to be served more often."""
        self._virtual = 0.0
        self._period = 0
        """Counts the times that somebody waited. Virtual time starts anew in each."""
        self._order = itertools.count()

    @property
    def tenants(self) -> int:
        """Those that are remembered."""
        return len(self._tenants)

    def enter(self, name: str) -> Entry:
        """One more of a tenant: it runs at once, or waits. Raises QueueFull."""
        limits = self._limits_of(name)
        tenant = self._tenants.get(name) or _Tenant(name, limits)
        if tenant.limits != limits:
            tenant.limits = limits
            self._line_up(tenant)  # its limit may have been raised
            self._start()
        self._tenants[name] = tenant
        entry = Entry(tenant, ahead=len(tenant.waiting))
        # with a place free and this tenant below its limit, nobody who waits could run there
        if self.running < self.max_running and not tenant.waiting and not _held(tenant):
            self._run(entry)
            return entry
        try:
            self._make_room(tenant)
        except QueueFull:
            self._forget(tenant)
            raise
        self._lengths.change(tenant, len(tenant.waiting), 1)
        tenant.waiting[entry] = None
        self.queued += 1
        self._line_up(tenant)
        return entry

    def leave(self, entry: Entry) -> None:
        """An entry ends, or does not wait any more. Nothing once it has left."""
        tenant, state = entry.tenant, entry.state
        entry.state = State.GONE
        if state is State.RUNNING:
            tenant.running -= 1
            self.running -= 1
            self._line_up(tenant)
        elif state is State.QUEUED:
            self._take(tenant, entry)
        self._start()
        self._forget(tenant)

    # plumbing

    def _make_room(self, tenant: _Tenant) -> None:
        own, waiting = tenant.limits.max_queued, len(tenant.waiting)
        if own and waiting >= own:
            raise QueueFull("tenant", waiting, tenant.running)
        if self.queued < self.max_queued:
            return
        if waiting + 1 >= self._lengths.greatest:
            raise QueueFull("total", self.queued, self.running)
        longest = self._lengths.longest()
        last = next(reversed(longest.waiting))
        self._take(longest, last)
        last.state = State.PUSHED_OUT
        self._tell(last)

    def _take(self, tenant: _Tenant, entry: Entry) -> None:
        """Out of the queue."""
        self._lengths.change(tenant, len(tenant.waiting), -1)
        del tenant.waiting[entry]
        self.queued -= 1

    def _run(self, entry: Entry) -> None:
        entry.state = State.RUNNING
        entry.tenant.running += 1
        self.running += 1

    def _line_up(self, tenant: _Tenant) -> None:
        """Put a tenant into the line, unless it is there or cannot run."""
        if tenant.waiting and not tenant.in_line and not _held(tenant):
            tenant.in_line = True
            heapq.heappush(self._line, (self._due(tenant), next(self._order), tenant))

    def _due(self, tenant: _Tenant) -> float:
        if tenant.period != self._period:
            return self._virtual
        return max(self._virtual, tenant.finish)

    def _start(self) -> None:
        while self._line and self.running < self.max_running:
            due, _, tenant = heapq.heappop(self._line)
            tenant.in_line = False
            if not tenant.waiting or _held(tenant):  # all have left, or its limit was lowered
                self._forget(tenant)
                continue
            entry = next(iter(tenant.waiting))
            self._take(tenant, entry)
            self._run(entry)
            self._virtual = due
            tenant.finish = due + 1 / tenant.limits.weight
            tenant.period = self._period
            self._line_up(tenant)
            self._tell(entry)
        if not self.queued:
            self._begin_anew()
        while self._resting and self._resting[0][0] <= self._virtual:
            _, _, tenant = heapq.heappop(self._resting)
            tenant.resting = False
            self._forget(tenant)

    def _forget(self, tenant: _Tenant) -> None:
        """Unless something must be known of it."""
        if tenant.running or tenant.waiting or tenant.in_line or tenant.resting:
            return
        if (due := self._due(tenant)) > self._virtual:
            tenant.resting = True
            heapq.heappush(self._resting, (due, next(self._order), tenant))
        elif self._tenants.get(tenant.name) is tenant:  # and not one of the same name, come since
            del self._tenants[tenant.name]

    def _begin_anew(self) -> None:
        """Nobody waits: all begin alike when somebody does again."""
        self._period += 1
        self._virtual = 0.0
        line, self._line = self._line, []
        resting, self._resting = self._resting, []
        for _, _, tenant in (*line, *resting):
            tenant.in_line = tenant.resting = False
            self._forget(tenant)


def _held(tenant: _Tenant) -> bool:
    """Whether its own limit keeps it from running more."""
    return 0 < tenant.limits.max_running <= tenant.running
