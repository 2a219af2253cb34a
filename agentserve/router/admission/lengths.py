"""Which of many queues is the longest, when each changes by one at a time. Pure, O(1)."""

from __future__ import annotations

from collections import OrderedDict, defaultdict
from collections.abc import Hashable
from typing import Generic, TypeVar

T = TypeVar("T", bound=Hashable)


class Lengths(Generic[T]):
    """Counts per owner, and the greatest of them."""

    def __init__(self) -> None:
        self._by_length: defaultdict[int, OrderedDict[T, None]] = defaultdict(OrderedDict)
        self.greatest = 0

    def change(self, owner: T, before: int, by: int) -> None:
        """``owner`` had ``before``; ``by`` is 1 or -1."""
        after = before + by
        if before:
            del self._by_length[before][owner]
            if not self._by_length[before]:
                del self._by_length[before]
        if after:
            self._by_length[after][owner] = None
        if after > self.greatest or (before == self.greatest and before not in self._by_length):
            self.greatest = after

    def longest(self) -> T:
        """An owner of the greatest count, which must not be 0."""
        return next(reversed(self._by_length[self.greatest]))
