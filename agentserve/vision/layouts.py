"""Static cells of a surface, learned over its sessions.

What recurs on the screens of several sessions stands first in a key screen, so that they share it
as a prefix. A wrong place at the front costs everybody behind it, and so does every change of the
order: hence a cell must prove itself in several sessions, cells that stay static keep their order
from version to version, and new ones join at the end.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

from pydantic import Field

from agentserve.core.model import Wire
from agentserve.core.plans import Sha256
from agentserve.core.screens import Size

TURNS = 2
"""In how many turns of a session a cell must look the same to count there."""
SESSIONS = 2
"""In how many sessions it must count."""
WINDOW = 8
"""Sessions that are remembered; a static cell is in at least half of them."""
CANDIDATES = 4
"""Most looks of a cell that are remembered. Those of few turns and sessions make room first."""


class Surface(Wire):
    """What sessions must have in common to share a layout, and with it a prefix."""

    tenant: str
    """The tenant's salt: nothing is learned from another tenant's screens."""
    model: str
    program: Sha256
    """Of the program's source, its system text included."""
    origin: str
    """Of the page; empty when nobody told."""
    viewport: Size
    scale: float
    cell: int
    """Edge of a cell, in model px."""

    @property
    def key(self) -> Sha256:
        return hashlib.sha256(self.model_dump_json().encode()).hexdigest()


class StaticCell(Wire):
    cell: int
    """Index in raster order."""
    identity: Sha256


class Layout(Wire):
    """The static cells of a surface, most stable first. Version 0 is that of an unknown surface."""

    version: int = 0
    cells: list[StaticCell] = Field(default_factory=list)


class Look(Wire):
    """One look of a cell, and the turns it had in each remembered session."""

    identity: Sha256
    turns: dict[str, int]

    @property
    def proven(self) -> int:
        """Number of sessions in which it counts."""
        return sum(turns >= TURNS for turns in self.turns.values())

    @property
    def rank(self) -> tuple[int, int]:
        """The higher, the more stable: in how many sessions it was, and in how many turns."""
        return len(self.turns), sum(self.turns.values())


class LayoutLearner(Wire):
    """What is known of a surface, as a value: ``observe`` returns the next one.

    Its size is bounded by the number of cells, whatever is observed.
    """

    sessions: list[str] = Field(default_factory=list)
    """The remembered ones, oldest first."""
    looks: list[list[Look]] = Field(default_factory=list)
    """By cell in raster order, the latest look last."""
    layout: Layout = Layout()
    """The present version: what a new session should use, and keep."""

    def observe(self, session: str, turns: Sequence[Sequence[Sha256]]) -> LayoutLearner:
        """Learn from turns of a session: the identities of all cells of each screen.

        A session may come back with further turns, and any order of sessions will do. All screens
        of a surface have the same cells: raises ValueError for another number of them.
        """
        cells = {len(screen) for screen in turns} | ({len(self.looks)} if self.looks else set())
        if len(cells) != 1:
            raise ValueError(f"screens of one surface with different numbers of cells: {cells}")
        sessions = [name for name in self.sessions if name != session]
        sessions = [*sessions, session][-WINDOW:]
        looks = [
            _seen(known, session, [screen[cell] for screen in turns], sessions)
            for cell, known in enumerate(self.looks or [[]] * len(turns[0]))
        ]
        return LayoutLearner(
            sessions=sessions, looks=looks, layout=_next(self.layout, looks, len(sessions))
        )


def _seen(
    known: Sequence[Look], session: str, identities: Sequence[Sha256], sessions: Sequence[str]
) -> list[Look]:
    """The looks of one cell after some turns; of forgotten sessions nothing is left."""
    counts = {look.identity: dict(look.turns) for look in known}
    for one in identities:
        turns = counts.pop(one, {})  # the latest look moves to the end
        counts[one] = turns | {session: turns.get(session, 0) + 1}
    looks = []
    for one, turns in counts.items():
        if remembered := {name: turns[name] for name in sessions if name in turns}:
            looks.append(Look(identity=one, turns=remembered))
    while len(looks) > CANDIDATES:
        looks.remove(min(looks[:-1], key=lambda look: look.rank))
    return looks


def _next(layout: Layout, looks: Sequence[Sequence[Look]], sessions: int) -> Layout:
    """The same layout while the same cells are static, else its next version."""
    static = {
        (cell, look.identity): look.rank
        for cell, known in enumerate(looks)
        for look in known
        if look.proven >= SESSIONS and 2 * len(look.turns) >= sessions
    }
    old = [(one.cell, one.identity) for one in layout.cells]
    stay = [one for one in old if one in static]
    join = sorted(static.keys() - set(old), key=lambda one: (-static[one][0], -static[one][1], one))
    if stay == old and not join:
        return layout
    cells = [StaticCell(cell=cell, identity=one) for cell, one in [*stay, *join]]
    return Layout(version=layout.version + 1, cells=cells)
