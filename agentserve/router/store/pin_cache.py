"""Pins of the pass-through that were read or written lately: not every request asks the store."""

from __future__ import annotations

from collections import OrderedDict
from typing import NamedTuple

from agentserve.router.store.base import PassPin

KEPT = 10_000
_SLOTS = 1024


class Mark(NamedTuple):
    """How many changes there have been, of everything and of the names of one slot."""

    of_all: int
    of_some: int


class PinCache:
    """Who asks the store takes a mark before, and shows it to keep the answer: a pin that was
    changed meanwhile is not kept."""

    def __init__(self) -> None:
        self._kept: OrderedDict[str, PassPin] = OrderedDict()
        self._cleared = 0
        self._changes = [0] * _SLOTS  # by a hash of the name: not one for each that ever was

    def get(self, name: str) -> PassPin | None:
        kept = self._kept.get(name)
        if kept is not None:
            self._kept.move_to_end(name)
        return kept

    def mark(self, name: str) -> Mark:
        return Mark(self._cleared, self._changes[hash(name) % _SLOTS])

    def keep(self, pin: PassPin, asked: Mark) -> None:
        """The pin that the store answered to a question behind this mark. The one that was longest
        not asked for makes room for it."""
        if asked != self.mark(pin.session_id):
            return
        self._kept[pin.session_id] = pin
        self._kept.move_to_end(pin.session_id)
        if len(self._kept) > KEPT:
            self._kept.popitem(last=False)

    def changed(self, name: str) -> None:
        """The store has another pin of this name, or none."""
        self._changes[hash(name) % _SLOTS] += 1
        self._kept.pop(name, None)

    def clear(self) -> None:
        """Any of them may have changed."""
        self._cleared += 1
        self._kept.clear()
