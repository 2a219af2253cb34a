"""The life of a session: created, released, expired, deleted. Where it is: router.pins."""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator, Callable, Collection
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from functools import partial

from agentserve.core.bulk import BulkRelease
from agentserve.core.errors import (
    InvalidRequest,
    SessionClosed,
    SessionPaused,
    TurnInProgress,
    UnknownSession,
)
from agentserve.core.events import EventType
from agentserve.core.families import FAMILIES, family_named
from agentserve.core.screens import ScreenSpace, screen_space
from agentserve.core.sessions import (
    MAX_TIMEOUT_S,
    Pin,
    Session,
    SessionCreate,
    SessionPage,
    SessionStatus,
    Usage,
)
from agentserve.core.tenants import NOBODY
from agentserve.core.workers import Worker
from agentserve.router.events import EventLog
from agentserve.router.forking import check_fork, forked
from agentserve.router.hosts import HostPool
from agentserve.router.metrics import Metrics
from agentserve.router.pins.pinning import Need, binding_of
from agentserve.router.pins.placement import Arrival, first_prompt
from agentserve.router.pins.service import Pins, pin_data
from agentserve.router.releasing import Releases
from agentserve.router.store import (
    OPEN,
    EventDraft,
    SessionRecord,
    Store,
    VersionConflict,
)
from agentserve.router.surfaces import Surfaces
from agentserve.router.turns.budget import prompt_budget
from agentserve.router.turns.planning import Planner
from agentserve.router.workers.registry import WorkerRegistry
from agentserve.vision.policies import (
    MARKER_TOKENS,
    Policy,
    check_policy,
    check_thinning,
    parse_policy,
)

SESSION_IDS = "s_"
"""What every session's id begins with."""
_BATCH = 100


def _new_id() -> str:
    return SESSION_IDS + secrets.token_urlsafe(16)


def now() -> datetime:
    return datetime.now(UTC)


class Sessions:
    """The service behind ``/v1/sessions``; turns are in router.turns."""

    def __init__(
        self,
        store: Store,
        events: EventLog,
        registry: WorkerRegistry,
        hosts: HostPool,
        surfaces: Surfaces,
        planner: Planner,
        metrics: Metrics,
        releases: Releases,
        *,
        max_turn_tokens: int,
    ) -> None:
        self._surfaces = surfaces
        self._planner = planner
        self._store = store
        self._events = events
        self._hosts = hosts
        self._max_turn_tokens = max_turn_tokens
        self._releases = releases
        self.pins = Pins(store, events, registry, surfaces, metrics, releases, self.open)

    # reading

    async def get(self, session_id: str, tenant: str | None = None) -> SessionRecord:
        """A session; with ``tenant``, one of that tenant's: nobody learns of others' ids. Raises
        UnknownSession."""
        record = await self._store.get(session_id)
        if record is None or tenant not in (None, record.tenant):
            raise UnknownSession(
                f"there is no session {session_id[:64]!r}",
                hint="create one: POST /v1/sessions; deleted sessions are forgotten",
            )
        return record

    async def has(self, session_id: str, tenant: str) -> bool:
        record = await self._store.get(session_id)
        return record is not None and record.tenant == tenant

    async def open(self, session_id: str) -> SessionRecord:
        """A session that may be used. Raises UnknownSession, SessionClosed, SessionPaused."""
        record = await self.get(session_id)
        if record.session.status is SessionStatus.IDLE and record.deadline <= now().timestamp():
            record = await self.expire(record)
        if record.session.status is SessionStatus.PAUSED:
            raise SessionPaused(
                f"session {session_id} is paused",
                hint=f"go on with it: POST /v1/sessions/{session_id}/resume",
            )
        self._check_not_closed(record)
        return record

    async def page(
        self, tenant: str, status: SessionStatus | None, cursor: str | None, limit: int
    ) -> SessionPage:
        if cursor is not None and not (cursor.isascii() and cursor.isdigit() and len(cursor) < 19):
            raise InvalidRequest("unknown cursor", hint="pass next_cursor of the page before")
        records, following = await self._store.page(
            status=status, before=int(cursor) if cursor else None, limit=limit, tenant=tenant
        )
        return SessionPage(
            sessions=[record.session for record in records],
            next_cursor=None if following is None else str(following),
        )

    # life

    async def create(self, create: SessionCreate, tenant: str = NOBODY) -> Session:
        """Check everything, place the session on a worker and store it as ``tenant``'s.

        Raises InvalidRequest, UnknownProgram, UnknownModel, NoWorker and HostLost;
        of a fork also what ``open`` raises of its parent, and TurnInProgress.
        """
        policy = parse_policy(create.policy)
        for name in ("timeout_s", "inactivity_timeout_s"):
            if (value := getattr(create, name)) > MAX_TIMEOUT_S:
                raise InvalidRequest(f"{name} is at most {MAX_TIMEOUT_S:g} seconds, got {value:g}")
        if create.parent is not None:
            return await self._fork(create, create.parent, tenant)
        await self._hosts.check_program(create.program)
        session_id = _new_id()
        async with self.pins.placing:
            arrival = Arrival(session_id, first_prompt(_visual_tokens(create), create.task))
            shared = partial(self._surfaces.shared_by_new, create, policy, tenant)
            worker = await self.pins.pick(arrival, Need(model=create.model), shared)
            binding = binding_of(worker)
            assert binding is not None
            family = family_named(binding.family)
            cell = check_policy(policy, family, create.cell)
            assert worker.report is not None
            check_thinning(policy, create.compression, family, worker.report.layers)
            space = screen_space(create.viewport, create.scale, family.grid)
            self._check_fits(space, create, worker)
            salt = self._surfaces.salt(tenant, create.surface)
            created = now()
            session = Session(
                id=session_id,
                status=SessionStatus.IDLE,
                **create.model_dump(exclude={"viewport", "scale", "cell"}),
                cell=cell,
                space=space,
                created_at=created,
                expires_at=created + timedelta(seconds=create.timeout_s),
                last_active_at=created,
                pin=Pin(
                    worker_id=worker.id,
                    boot_id=worker.boot_id,
                    generation=1,
                    held_tokens=arrival.prompt,
                ),
                warnings=_warnings(policy, worker),
                public=bool(tenant) and not salt,
            )
            await self._events.create(
                SessionRecord(session=session, binding=binding, tenant=tenant, salt=salt),
                [
                    EventDraft(EventType.SESSION_CREATED, {"program": create.program}),
                    EventDraft(EventType.PIN_PLACED, pin_data(session.pin)),
                ],
            )
        return session

    async def _fork(self, create: SessionCreate, parent_id: str, tenant: str) -> Session:
        """A second continuation of an idle session, on the worker that holds its prefix."""
        await self.get(parent_id, tenant)
        while True:
            parent, _ = await self.pins.place(await self.open(parent_id))
            check_fork(create, parent.session)
            if parent.session.status is not SessionStatus.IDLE:
                raise TurnInProgress(
                    f"a turn of session {parent_id} is running: it cannot be forked now",
                    hint="wait for its answer",
                )
            created = now()
            assert parent.session.pin is not None
            session = parent.session.model_copy(
                update={
                    **create.model_dump(
                        include={"parent", "task", "metadata", "timeout_s", "inactivity_timeout_s"}
                    ),
                    "id": _new_id(),
                    "created_at": created,
                    "expires_at": created + timedelta(seconds=create.timeout_s),
                    "last_active_at": created,
                    "pin": parent.session.pin.model_copy(update={"generation": 1}),
                    "usage": Usage(),
                }
            )
            events = [
                EventDraft(
                    EventType.SESSION_CREATED, {"program": create.program, "parent": parent_id}
                ),
                EventDraft(EventType.PIN_PLACED, pin_data(session.pin)),
            ]
            await self._planner.keep(parent)
            # the parent is idle: no turn of its runs in the fork either
            record = parent.model_copy(update={"session": session, "forked": None, "version": 0})
            try:
                parent = await self._events.update(forked(parent))
                await self._events.create(record, events, parent)
            except VersionConflict:  # a turn of the parent has begun meanwhile
                continue
            return session

    async def release(self, session_id: str) -> Session:
        """Close a session; releasing a closed one again changes nothing."""
        record, changed = await self._change(
            session_id,
            lambda record: None if record.closed else _closed(record, SessionStatus.RELEASED),
            EventDraft(EventType.SESSION_RELEASED),
        )
        if changed:
            self._releases.closed(record)
        return record.session

    async def release_some(self, tenant: str, which: BulkRelease) -> AsyncIterator[Session]:
        """Close many; yields those that were not closed before."""
        if which.ids is not None:
            for session_id in dict.fromkeys(which.ids):
                with suppress(UnknownSession):
                    if not (await self.get(session_id, tenant)).closed:
                        yield await self.release(session_id)
            return
        wanted = (which.metadata or {}).items()
        for status in (*OPEN, SessionStatus.PAUSED):
            cursor: int | None = None
            while True:
                records, cursor = await self._store.page(
                    status=status, before=cursor, limit=_BATCH, tenant=tenant
                )
                for record in records:
                    if wanted <= record.session.metadata.items():
                        yield await self.release(record.session.id)
                if cursor is None:
                    break

    async def pause(self, session_id: str) -> Session:
        """Let an idle session rest: it takes no turns, does not expire for being idle, and counts
        for nothing on its worker. Pausing it again changes nothing. Raises SessionClosed,
        TurnInProgress."""

        def paused(record: SessionRecord) -> SessionRecord | None:
            if record.session.status is SessionStatus.RUNNING:
                raise TurnInProgress(
                    f"a turn of session {session_id} is running: it cannot be paused now",
                    hint="wait for its answer",
                )
            self._check_not_closed(record)
            if record.session.status is SessionStatus.PAUSED:
                return None
            return record.with_session(status=SessionStatus.PAUSED)

        draft = EventDraft(EventType.SESSION_PAUSED)
        return (await self._change(session_id, paused, draft))[0].session

    async def resume(self, session_id: str) -> Session:
        """Go on with a paused session; with its next turn it goes to another worker if its own is
        gone. Of one that is not paused nothing changes. Raises SessionClosed."""

        def resumed(record: SessionRecord) -> SessionRecord | None:
            self._check_not_closed(record)
            if record.open:
                return None
            return record.with_session(status=SessionStatus.IDLE, last_active_at=now())

        draft = EventDraft(EventType.SESSION_RESUMED)
        return (await self._change(session_id, resumed, draft))[0].session

    @staticmethod
    def _check_not_closed(record: SessionRecord) -> None:
        if record.closed:
            status = record.session.status.value
            raise SessionClosed(
                f"session {record.session.id} is {status}",
                hint="create a new session",
                details={"status": status},
            )

    async def delete(self, session_id: str) -> None:
        """Forget a session. Raises UnknownSession."""
        await self.get(session_id)
        await self._events.delete(session_id)

    async def expire(self, record: SessionRecord) -> SessionRecord:
        """Close an idle or paused session whose deadline has passed."""
        limit = "timeout" if record.session.expires_at <= now() else "inactivity"
        try:
            expired = await self._events.update(
                _closed(record, SessionStatus.EXPIRED),
                EventDraft(EventType.SESSION_EXPIRED, {"reason": limit}),
            )
        except VersionConflict:  # a turn was faster, or another expiry
            return await self.get(record.session.id)
        self._releases.closed(expired)
        return expired

    async def recover(self, alive: Collection[str]) -> None:
        """End the turns that no router of ``alive`` runs, whatever the store says. Epochs stay, so
        clients may ask the lost turns again."""
        lost = EventDraft(EventType.TURN_FAILED, {"code": "router_lost"})
        cursor: int | None = None
        while True:
            records, cursor = await self._store.page(
                status=SessionStatus.RUNNING, before=cursor, limit=_BATCH
            )
            for record in records:
                if record.running is not None and record.running.router in alive:
                    continue
                idle = record.with_session(status=SessionStatus.IDLE)
                with suppress(VersionConflict):  # another router was faster
                    await self._events.update(idle.model_copy(update={"running": None}), lost)
            if cursor is None:
                return

    def _check_fits(self, space: ScreenSpace, create: SessionCreate, worker: Worker) -> None:
        needed = space.visual_tokens + MARKER_TOKENS
        budget = prompt_budget(worker, self._max_turn_tokens, create.task)
        if needed > budget:
            raise InvalidRequest(
                f"a screen of {space.model} takes {needed} tokens; beside the task, the context "
                f"of worker {worker.id} has room for {budget}",
                hint="lower the scale or the viewport, or use a worker with a longer context",
            )

    async def _change(
        self,
        session_id: str,
        change: Callable[[SessionRecord], SessionRecord | None],
        event: EventDraft,
    ) -> tuple[SessionRecord, bool]:
        """Apply a change, whoever else writes the session; None changes nothing. The session, and
        whether it was changed."""
        while True:
            record = await self.get(session_id)
            changed = change(record)
            if changed is None:
                return record, False
            try:
                return await self._events.update(changed, event), True
            except VersionConflict:
                continue


def _closed(record: SessionRecord, status: SessionStatus) -> SessionRecord:
    return record.with_session(status=status, closed_at=now())


def _visual_tokens(create: SessionCreate) -> int:
    """Of its screen, about: the grid depends on the model, which is not chosen yet."""
    return screen_space(create.viewport, create.scale, min(f.grid for f in FAMILIES)).visual_tokens


def _warnings(policy: Policy, worker: Worker) -> list[str]:
    assert worker.report is not None
    if policy.mosaic and worker.report.page_size > 1:
        return [
            f"the worker's page size is {worker.report.page_size}: what a newer part of the screen "
            "covers cannot leave its cache, and each turn computes more"
        ]
    return []
