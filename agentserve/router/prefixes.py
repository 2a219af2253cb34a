"""What sessions begin with alike, as the turns of this router have shown: the shared cells that
each worker has of a surface, and the text of a program before the first picture.

In memory only: a guess for placing sessions, and for what to leave of those that are over. What a
worker has lost since is seen by the next turn that begins there, which computes it again.
"""

from __future__ import annotations

from array import array
from collections import OrderedDict
from collections.abc import Sequence
from itertools import takewhile
from typing import NamedTuple

from agentserve.core.plans import Piece, Sha256, TextPiece, VisualItem, num_tokens
from agentserve.core.workers import Worker

REMEMBERED = 4096
"""Pairs of a surface and a worker; programs."""
LONGEST = 1 << 16
"""Token ids kept of a program's beginning."""


def shared_tokens(pieces: Sequence[Piece]) -> int:
    """First tokens of a prompt that other sessions of its surface begin with as well: up to its
    last shared cell; 0 without one."""
    last = 0
    for index, piece in enumerate(pieces, start=1):
        if isinstance(piece, VisualItem):
            if not piece.shared:
                break
            last = index
    return num_tokens(pieces[:last])


class SharedPrefixes:
    """Of all surfaces and workers; the longest unseen are forgotten."""

    def __init__(self) -> None:
        self._known: OrderedDict[tuple[Sha256, str], tuple[str, int]] = OrderedDict()
        """(Surface, worker) -> (its life, tokens); the last seen is the last."""

    def note(self, surface: Sha256, worker: Worker, tokens: int) -> None:
        """A turn has just left so many first tokens in the worker's cache."""
        place = (surface, worker.id)
        self._known.pop(place, None)
        self._known[place] = (worker.boot_id, tokens)
        if len(self._known) > REMEMBERED:
            self._known.popitem(last=False)

    def tokens(self, surface: Sha256, worker: Worker) -> int:
        boot_id, tokens = self._known.get((surface, worker.id), ("", 0))
        return tokens if boot_id == worker.boot_id else 0


class Program(NamedTuple):
    """What has prompts of its own in the workers' caches."""

    salt: str
    model: str
    sha256: Sha256


class Beginnings:
    """The text that the sessions of each program begin with, as far as they all do; of programs,
    the longest unseen are forgotten."""

    def __init__(self) -> None:
        self._known: OrderedDict[Program, tuple[str, array[int], bool]] = OrderedDict()
        """(A session, what it and all others begin with, whether there was another); the last seen
        is the last."""

    def note(self, program: Program, session_id: str, pieces: Sequence[Piece]) -> None:
        """A session's prompt begins with ``pieces``."""
        text = takewhile(lambda piece: isinstance(piece, TextPiece), pieces)
        ids = array("q", [i for piece in text for i in piece.ids][:LONGEST])
        first, known, alike = self._known.pop(program, (session_id, ids, False))
        if first != session_id:
            known, alike = known[: _common(known, ids)], True
        self._known[program] = (first, known, alike)
        if len(self._known) > REMEMBERED:
            self._known.popitem(last=False)

    def tokens(self, program: Program) -> int:
        """First tokens of all its sessions; 0 until there were two."""
        _, known, alike = self._known.get(program, ("", (), False))
        return len(known) if alike else 0


def _common(one: Sequence[int], other: Sequence[int]) -> int:
    pairs = enumerate(zip(one, other, strict=False))
    return next((i for i, (a, b) in pairs if a != b), min(len(one), len(other)))
