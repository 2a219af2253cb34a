"""The prompt of a session's next turn, and what its worker holds afterwards.

Policies with whole screens plan from the transcript; ``mosaic`` plans from what the session's
worker holds, which is stored with every turn, so that any worker can be given the same prompt.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, replace

from agentserve.core.actions import points
from agentserve.core.errors import UnknownBlob
from agentserve.core.families import family_named
from agentserve.core.hosting import HostAnswer
from agentserve.core.plans import Piece, Plan, Sha256, VisualItem
from agentserve.core.workers import Worker
from agentserve.router.blobs import BlobStore
from agentserve.router.screens import RecentScreens
from agentserve.router.store import HeldRecord, SessionRecord, Store
from agentserve.router.surfaces import Surfaces
from agentserve.router.turns.asking import TurnAsk, held_of, plan_turn, turn_budget
from agentserve.vision.cells import CutScreen, as_pixels, cut
from agentserve.vision.layouts import Layout
from agentserve.vision.mosaic import (
    Held,
    Limits,
    MosaicPlan,
    MosaicSettings,
    held_after,
    plan_mosaic,
)
from agentserve.vision.policies import check_thinning, parse_policy
from agentserve.vision.screenshots import Screenshot
from agentserve.vision.thinning import Wishes


@dataclass(frozen=True)
class _Mosaic:
    """What a mosaic's plan was made from."""

    planned: MosaicPlan
    before: Held
    shown: Sha256 | None
    """The blob of the screen that is held."""
    screen: CutScreen


@dataclass(frozen=True)
class Planned:
    """A turn's plan, and what follows from it when the turn is answered."""

    plan: Plan
    record: SessionRecord
    shot: Screenshot
    mosaic: _Mosaic | None = None

    @property
    def pictures(self) -> dict[Sha256, bytes]:
        """All that is to be stored with the turn."""
        shot = self.shot
        own = {shot.sha256: shot.data, shot.model_sha256: shot.model_image}
        return own if self.mosaic is None else own | self.mosaic.planned.pictures

    @property
    def shown(self) -> dict[Sha256, bytes]:
        """Those of them that the program shows."""
        pictures = self.pictures
        names = [item.blob for item in self.plan.screen]
        return {name: pictures[name] for name in names if name in pictures}

    def held(self, answer: HostAnswer) -> HeldRecord | None:
        """What a mosaic session's worker holds once the pieces of the program host's answer are
        settled. None for other policies: their transcript says it."""
        if self.mosaic is None:
            return None
        session = self.record.session
        after = held_after(
            self.plan,
            answer.pieces,
            self.mosaic.before,
            self.mosaic.screen,
            session.turns,
            session.space.grid,
        )
        return HeldRecord(
            pieces=list(after.pieces),
            shown=self.shot.model_sha256 if after.shown is not None else None,
            since=after.since,
            resend_thin=answer.resend_thin,
        )


class Planner:
    """Makes the plans of all sessions' turns."""

    def __init__(
        self, store: Store, blobs: BlobStore, surfaces: Surfaces, max_turn_tokens: int
    ) -> None:
        self._store = store
        self._blobs = blobs
        self._surfaces = surfaces
        self._max_turn_tokens = max_turn_tokens
        self._screens = RecentScreens()

    async def plan(
        self,
        record: SessionRecord,
        ask: TurnAsk,
        shot: Screenshot,
        worker: Worker,
        hand: Callable[[Mapping[Sha256, bytes]], None],
    ) -> Planned:
        """The prompt of the next turn on ``worker``. The turn need not have begun: see ``begun``.
        ``hand`` is called in a thread, with the new pictures that the program shows.

        Raises InvalidRequest when it cannot fit the worker's context, StorageFailed.
        """
        session = record.session
        compression = ask.compression or session.compression
        assert worker.report is not None
        family = family_named(record.binding.family)
        check_thinning(parse_policy(session.policy), compression, family, worker.report.layers)
        if session.cell is None:
            transcript = await self._store.transcript(session.id)
            plan = plan_turn(record, ask, shot, transcript, worker, self._max_turn_tokens)
            planned = Planned(plan, record, shot)
            await asyncio.to_thread(hand, planned.shown)
            return planned

        stored = await self._store.held(session.id) or HeldRecord()
        wishes = Wishes(
            compression=compression,
            resend_thin=ask.resend_thin or stored.resend_thin,
            aimed=await self._aimed(record),
        )
        shown = await self._shown(record.tenant, stored, session.cell)
        layout = Layout()
        if not stored.pieces:
            layout = await self._surfaces.layout(record)
        budget = turn_budget(record, ask, worker, self._max_turn_tokens)

        def plan_and_hand() -> Planned:
            mosaic = _plan_mosaic(record, stored, shown, shot, budget, layout, wishes)
            planned = Planned(mosaic.planned.plan, record, shot, mosaic)
            hand(planned.shown)
            return planned

        return await asyncio.to_thread(plan_and_hand)

    async def begun(self, planned: Planned) -> Planned:
        """The plan of a turn that has begun: until then the session could be forked."""
        if planned.mosaic is None:
            return planned
        stored = await self._store.held(planned.record.session.id)
        forked = stored is not None and stored.forked
        return replace(planned, plan=planned.plan.model_copy(update={"forked": forked}))

    def completed(self, planned: Planned, held: HeldRecord) -> None:
        """The next turn of a mosaic session will be planned against another screen."""
        assert planned.mosaic is not None
        last, screen = planned.mosaic.shown, planned.mosaic.screen
        if held.shown is not None and held.shown != last:
            self._screens.keep(held.shown, screen)
            if last is not None:
                self._screens.let_go(last, screen.cell)

    async def held(self, record: SessionRecord) -> list[Piece]:
        """What the session's worker holds of it: the next prompt begins with it, as long as its
        policy drops nothing."""
        if record.session.cell is None:
            return held_of(record, await self._store.transcript(record.session.id))
        stored = await self._store.held(record.session.id)
        return [] if stored is None else stored.pieces

    def pictures(
        self, record: SessionRecord, pieces: Sequence[Piece], handed: Collection[Sha256] = ()
    ) -> AbstractAsyncContextManager[None]:
        """Around what a program host does with these pieces: it finds their pictures, of which some
        may be ``handed`` to it. Raises UnknownBlob, StorageFailed."""
        stored = [name for name in _names(pieces) if name not in handed]
        return self._blobs.using(record.tenant, stored)

    async def keep(self, record: SessionRecord) -> None:
        """Let what the session's next prompt begins with not expire before a fork of it may."""
        stored = await self._store.held(record.session.id)
        shown = [] if stored is None or stored.shown is None else [stored.shown]
        await self._blobs.use(record.tenant, [*_names(await self.held(record)), *shown])

    async def _aimed(self, record: SessionRecord) -> list[tuple[int, int]]:
        """Where the last action pointed, in model px."""
        session = record.session
        last = await self._store.turn(session.id, session.epoch - 1) if session.epoch else None
        return [] if last is None else points(last.result.model_action)

    async def _shown(self, tenant: str, stored: HeldRecord, cell: int) -> CutScreen | None:
        """The screen that the held parts show. Without it the next screen is sent whole."""
        if stored.shown is None:
            return None
        if (kept := self._screens.get(stored.shown, cell)) is not None:
            return kept
        try:
            image = await self._blobs.read(tenant, stored.shown)
        except UnknownBlob:
            return None
        return await asyncio.to_thread(lambda: cut(as_pixels(image), cell))


def _names(pieces: Sequence[Piece]) -> list[str]:
    return [piece.blob for piece in pieces if isinstance(piece, VisualItem)]


def _plan_mosaic(
    record: SessionRecord,
    stored: HeldRecord,
    shown: CutScreen | None,
    shot: Screenshot,
    budget: int,
    layout: Layout,
    wishes: Wishes,
) -> _Mosaic:
    """Milliseconds of CPU: comparing, hashing, and writing the pictures of what changed."""
    session = record.session
    assert session.cell is not None
    family = family_named(record.binding.family)
    held = Held(pieces=stored.pieces, shown=shown, since=stored.since)
    screen = cut(shot.pixels(), session.cell, shown)
    settings = MosaicSettings(family.grid, session.positions, session.vision_context)
    limits = Limits(tokens=budget, positions=budget)
    picture = shot.model_sha256 if shot.exact else None
    planned = plan_mosaic(settings, held, screen, session.turns, limits, layout, wishes, picture)
    return _Mosaic(planned, held, stored.shown, screen)
