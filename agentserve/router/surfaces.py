"""What sessions have in common: of one surface the key screens' order, learned and stored, of one
program the text before the first picture.

Learning is by the way: it never fails a turn, and what one router's write loses to another's is
seen again in the next turns.
"""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Callable, Collection, Sequence

from agentserve.core.errors import InvalidRequest, StorageFailed
from agentserve.core.families import family_named
from agentserve.core.plans import Piece, Sha256
from agentserve.core.screens import Size
from agentserve.core.sessions import SessionCreate
from agentserve.core.tenants import cache_salt
from agentserve.core.workers import Worker
from agentserve.router.hosts import HostPool
from agentserve.router.pins.pinning import binding_of
from agentserve.router.prefixes import Beginnings, Program, SharedPrefixes, shared_tokens
from agentserve.router.store import SessionRecord, Store
from agentserve.vision.layouts import Layout, LayoutLearner, Surface
from agentserve.vision.policies import Policy, check_policy

log = logging.getLogger(__name__)
TAUGHT_TURNS = 8
"""A session teaches by its first turns; later ones show what they have changed by themselves."""
REMEMBERED = 256
"""Surfaces kept in memory."""


class Surfaces:
    """Layouts by surface, over the store."""

    def __init__(self, store: Store, hosts: HostPool, public: Collection[str] = ()) -> None:
        """``public``: the surfaces that all tenants share."""
        self._public = frozenset(public)
        self._store = store
        self._hosts = hosts
        self._learners: OrderedDict[Sha256, LayoutLearner] = OrderedDict()
        self._prefixes = SharedPrefixes()
        self._beginnings = Beginnings()

    def shown(self, record: SessionRecord, pieces: Sequence[Piece], worker: Worker) -> None:
        """A prompt of ``pieces``, from its beginning, was computed on a worker."""
        self._beginnings.note(self._program(record), record.session.id, pieces)
        if record.session.cell is not None and (tokens := shared_tokens(pieces)):
            self._prefixes.note(self._key(record), worker, tokens)

    def shared(self, record: SessionRecord) -> Callable[[Worker], int]:
        """How many of the first tokens of a session's prompt a worker has, for all it is known."""
        if record.session.cell is None:
            return lambda _: 0
        key = self._key(record)
        return lambda worker: self._prefixes.tokens(key, worker)

    def begun(self, record: SessionRecord, worker: Worker) -> int:
        """How many first tokens of a session's prompt others will begin with as well."""
        return max(self.shared(record)(worker), self._beginnings.tokens(self._program(record)))

    def shared_by_new(
        self, create: SessionCreate, policy: Policy, tenant: str, worker: Worker
    ) -> int:
        """The same of a session that is to be created, on a worker that can hold it."""
        binding = binding_of(worker)
        assert binding is not None
        try:
            cell = check_policy(policy, family_named(binding.family), create.cell)
        except InvalidRequest:  # told when the worker is taken
            return 0
        if cell is None:
            return 0
        surface = self._surface(
            self.salt(tenant, create.surface), binding.served_model_name, create.program,
            create.surface, create.viewport, create.scale, cell,
        )  # fmt: skip
        return self._prefixes.tokens(surface, worker)

    def salt(self, tenant: str, origin: str) -> str:
        """What keeps a tenant's sessions of a surface apart from others' in the workers' caches;
        empty when nothing does."""
        return "" if origin and origin in self._public else cache_salt(tenant)

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

    def _program(self, record: SessionRecord) -> Program:
        sha256 = self._hosts.program_sha256(record.session.program)
        return Program(record.salt, record.binding.served_model_name, sha256)

    def _key(self, record: SessionRecord) -> Sha256:
        session = record.session
        assert session.cell is not None
        return self._surface(
            record.salt, record.binding.served_model_name, session.program, session.surface,
            session.space.css, session.space.scale, session.cell,
        )  # fmt: skip

    def _surface(
        self,
        salt: str,
        model: str,
        program: str,
        origin: str,
        viewport: Size,
        scale: float,
        cell: int,
    ) -> Sha256:
        surface = Surface(
            tenant=salt,
            model=model,
            program=self._hosts.program_sha256(program),
            origin=origin,
            viewport=viewport,
            scale=scale,
            cell=cell,
        )
        return surface.key
