"""What sessions of one surface have in common: their key screens' order, learned and stored.

Learning is by the way: it never fails a turn, and what one router's write loses to another's is
seen again in the next turns.
"""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Sequence

from agentserve.core.errors import StorageFailed
from agentserve.core.plans import Sha256
from agentserve.router.hosts import HostPool
from agentserve.router.store import SessionRecord, Store
from agentserve.vision.layouts import Layout, LayoutLearner, Surface

log = logging.getLogger(__name__)
TAUGHT_TURNS = 8
"""A session teaches by its first turns; later ones show what they have changed by themselves."""
REMEMBERED = 256
"""Surfaces kept in memory."""


class Surfaces:
    """Layouts by surface, over the store."""

    def __init__(self, store: Store, hosts: HostPool) -> None:
        self._store = store
        self._hosts = hosts
        self._learners: OrderedDict[Sha256, LayoutLearner] = OrderedDict()

    async def layout(self, record: SessionRecord) -> Layout:
        """The present layout of a session's surface; the first screen of the session keeps it."""
        return (await self._learner(self._key(record))).layout

    async def observe(self, record: SessionRecord, screen: Sequence[Sha256]) -> None:
        """Learn from a turn's screen: the identities of its cells."""
        if record.session.turns >= TAUGHT_TURNS:
            return
        key = self._key(record)
        learner = (await self._learner(key)).observe(record.session.id, [screen])
        self._remember(key, learner)
        try:
            await self._store.put_layouts(key, learner)
        except StorageFailed as error:
            log.warning("what was learned of a surface is not stored: %s", error)

    async def _learner(self, key: Sha256) -> LayoutLearner:
        learner = self._learners.get(key)
        if learner is None:
            learner = await self._store.layouts(key) or LayoutLearner()
        self._remember(key, learner)
        return learner

    def _remember(self, key: Sha256, learner: LayoutLearner) -> None:
        self._learners[key] = learner
        self._learners.move_to_end(key)
        if len(self._learners) > REMEMBERED:
            self._learners.popitem(last=False)

    def _key(self, record: SessionRecord) -> Sha256:
        session = record.session
        assert session.cell is not None
        surface = Surface(
            tenant="",
            model=record.binding.served_model_name,
            program=self._hosts.program_sha256(session.program),
            origin=session.surface,
            viewport=session.space.css,
            scale=session.space.scale,
            cell=session.cell,
        )
        return surface.key
