"""Tier 1: the most recently used embeddings, bounded in bytes."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor


@dataclass
class Held:
    """One entry."""

    tensor: Tensor
    """[tokens, hidden] on the CPU, with a storage of its own; nobody may write into it."""
    kept_at: float
    """When the folder was last told that the entry is in use, in seconds of a monotonic clock."""


class MemoryTier:
    """An LRU of tensors. Not thread-safe: its owner has a lock."""

    def __init__(self, limit_bytes: int) -> None:
        self.limit_bytes = limit_bytes
        self.num_bytes = 0
        self._entries: OrderedDict[str, Held] = OrderedDict()

    def get(self, key: str) -> Held | None:
        held = self._entries.get(key)
        if held is not None:
            self._entries.move_to_end(key)
        return held

    def put(self, key: str, held: Held) -> None:
        """Hold an entry and let go of the longest unused ones. One over the limit is not held."""
        size = held.tensor.nbytes
        if size > self.limit_bytes:
            return
        if (old := self._entries.pop(key, None)) is not None:
            self.num_bytes -= old.tensor.nbytes
        self._entries[key] = held
        self.num_bytes += size
        while self.num_bytes > self.limit_bytes:
            _, oldest = self._entries.popitem(last=False)
            self.num_bytes -= oldest.tensor.nbytes
