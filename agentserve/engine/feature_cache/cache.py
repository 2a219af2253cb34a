"""The feature cache as the engine uses it."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from agentserve.engine.feature_cache.entry import check_embeddings
from agentserve.engine.feature_cache.folder import FolderTier
from agentserve.engine.feature_cache.memory import Held, MemoryTier

if TYPE_CHECKING:
    from torch import Tensor

Tier = Literal["memory", "folder"]
KEEP_S = 60.0
"""How often the folder is told of an entry that is in use, at most."""
CLOSE_TIMEOUT_S = 10.0


@dataclass(frozen=True)
class FeatureCacheStats:
    """Counts since the start of this process, and sizes as they are now."""

    memory_hits: int
    folder_hits: int
    misses: int
    memory_bytes: int
    folder_bytes: int
    """Of all files of all workers and models, when this worker last wrote one."""
    dropped: int
    """Entries that were not queued for the folder: the disk was too slow, or had failed."""
    damaged: int
    """Files that were not what they should be: misses, and removed."""
    writing: bool
    """Whether there is a folder that this worker writes to."""


class FeatureCache:
    """Host memory, then a folder. Thread-safe; only broken arguments raise.

    ``memory_bytes`` 0 holds nothing in memory, ``folder`` None has no second tier. ``model_key``
    (keys.model_key) parts what different models and dtypes have computed. The key of an entry is
    any text that identifies its pixels and all that was done to them, like a SHA-256. ``get`` reads
    the folder on the caller's thread: it should be on a local disk.
    """

    def __init__(
        self, memory_bytes: int, folder: Path | None, folder_bytes: int, model_key: str
    ) -> None:
        self._memory = MemoryTier(memory_bytes)
        self._folder = None if folder is None else FolderTier(folder, folder_bytes, model_key)
        self._lock = threading.Lock()
        self._memory_hits = self._folder_hits = self._misses = self._dropped = 0

    def get(self, key: str) -> Tensor | None:
        """The embeddings, [tokens, hidden] on the CPU, or None. Do not write into them."""
        found = self.find(key)
        return None if found is None else found[0]

    def find(self, key: str) -> tuple[Tensor, Tier] | None:
        """The same, and where they were."""
        now = time.monotonic()
        with self._lock:
            held = self._memory.get(key)
            if held is not None:
                self._memory_hits += 1
                # Else what is used from memory for hours would be the oldest in the folder.
                due = now - held.kept_at >= KEEP_S
                if due:
                    held.kept_at = now
        if held is not None:
            if due and self._folder:
                self._folder.keep(key, held.tensor)
            return held.tensor, "memory"
        tensor = self._folder.get(key) if self._folder else None
        with self._lock:
            if tensor is None:
                self._misses += 1
                return None
            self._folder_hits += 1
            self._memory.put(key, Held(tensor, now))
        self._folder.keep(key, tensor)
        return tensor, "folder"

    def put(self, key: str, tensor: Tensor) -> None:
        """Store a copy of embeddings: [tokens, hidden], fp32, bf16 or fp16, on any device.

        From a GPU this waits for the copy: take several regions to the CPU in one tensor first and
        put its slices. Raises ValueError for any other shape or dtype.
        """
        check_embeddings(tensor)
        # A copy even on the CPU: a slice would hold the whole batch it was cut from.
        owned = tensor.detach().contiguous().to("cpu", copy=True)
        with self._lock:
            self._memory.put(key, Held(owned, time.monotonic()))
        if self._folder and not self._folder.keep(key, owned):
            with self._lock:
                self._dropped += 1

    def stats(self) -> FeatureCacheStats:
        folder = self._folder
        with self._lock:
            return FeatureCacheStats(
                memory_hits=self._memory_hits,
                folder_hits=self._folder_hits,
                misses=self._misses,
                memory_bytes=self._memory.num_bytes,
                folder_bytes=folder.num_bytes if folder else 0,
                dropped=self._dropped,
                damaged=folder.damaged if folder else 0,
                writing=folder is not None and folder.writing,
            )

    def close(self) -> bool:
        """Write what is queued, for 10 s at most; False when some of it was left.

        The cache answers from what it has afterwards, and writes nothing more.
        """
        return self._folder.close(CLOSE_TIMEOUT_S) if self._folder else True
