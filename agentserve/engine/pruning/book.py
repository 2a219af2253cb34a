"""What a worker knows of each request whose tokens are chosen from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

from agentserve.engine import compat_pruning as compat
from agentserve.engine.eviction.change import Change, change_of
from agentserve.engine.pruning.evict import by_attention
from agentserve.engine.pruning.targets import Chosen


@dataclass(eq=False)
class Entry:
    """Of one request, from its first look-up in the prefix cache to its end."""

    change: Change
    chosen: Chosen | None = None
    """None: its prompt is not computed yet, or nothing was chosen."""
    reason: str | None = None
    """Why nothing was."""
    shortened: compat.Shortened | None = None
    """How to take it back, once tokens have left."""

    @property
    def looks(self) -> bool:
        """Whether the choice is made, or prepared, while its prompt is computed."""
        asked = self.change.compression
        return asked.pruning is not None or (
            asked.eviction is not None and by_attention(asked.eviction)
        )

    @property
    def gone(self) -> int:
        """How many tokens of the prompt have left by now."""
        slots = None if self.chosen is None else self.chosen.slots
        return 0 if slots is None else len(slots)

    @property
    def first(self) -> int:
        """The first token of the prompt that may go."""
        item = self.change.open[0]
        return item.start + item.tokens[0]


_entries: WeakKeyDictionary[Any, Entry | None] = WeakKeyDictionary()


def entry_of(request: Any) -> Entry | None:
    """None for a request of which nothing is chosen."""
    if request not in _entries:
        changes = map(change_of, compat.items_of(request))
        change = next((change for change in changes if change is not None), None)
        _entries[request] = Entry(change) if change is not None and change.open else None
    return _entries[request]
