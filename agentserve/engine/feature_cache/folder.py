"""Tier 2: a folder shared by the workers of a host. Reads at once, writes in the background."""

from __future__ import annotations

import hashlib
import logging
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from agentserve.core.config import MIB
from agentserve.engine.feature_cache.backlog import Backlog
from agentserve.engine.feature_cache.entry import decode, encode
from agentserve.engine.feature_cache.files import FileStore

if TYPE_CHECKING:
    from torch import Tensor

log = logging.getLogger(__name__)

BACKLOG_BYTES = 64 * MIB
"""Embeddings waiting to be written: about a second's worth for an ordinary disk."""
BACKLOG_JOBS = 4096


class FolderTier:
    """Thread-safe. No method raises OSError: the first failed write ends all writing."""

    def __init__(self, folder: Path, limit_bytes: int, model_key: str) -> None:
        self.damaged = 0
        """Files that were not what they should be, and were removed."""
        self._folder = folder
        self._model = _name(model_key)
        self._files = FileStore(folder, self._model, limit_bytes)
        self._backlog = Backlog("feature-cache", max_jobs=BACKLOG_JOBS, max_bytes=BACKLOG_BYTES)
        self._lock = threading.Lock()
        self._failed = False
        self._backlog.offer(partial(self._attempt, self._files.open))

    @property
    def writing(self) -> bool:
        """False once a write has failed; what is there can still be read."""
        return not self._failed

    @property
    def num_bytes(self) -> int:
        """Bytes of all files, other models' included, when this worker last wrote one."""
        return self._files.num_bytes

    def get(self, key: str) -> Tensor | None:
        """[tokens, hidden] on the CPU, checked; None when there is none or it was damaged."""
        name = _name(key)
        data = self._files.read(name)
        if data is None:
            return None
        tensor = decode(data, self._identity(name))
        if tensor is None:
            self._files.remove(name)
            with self._lock:
                self.damaged += 1
        return tensor

    def keep(self, key: str, tensor: Tensor) -> bool:
        """Have the entry in the folder, as just used; False when nothing will be done about it.

        ``tensor`` is as entry.encode wants it and must not change any more.
        """
        if self._failed:
            return False
        job = partial(self._attempt, partial(self._keep, key, tensor))
        return self._backlog.offer(job, tensor.nbytes)

    def close(self, timeout_s: float) -> bool:
        """Write what is queued; False when that took longer."""
        return self._backlog.close(timeout_s)

    def _keep(self, key: str, tensor: Tensor) -> None:
        name = _name(key)
        if not self._files.touch(name):
            self._files.write(name, encode(tensor, self._identity(name)))

    def _attempt(self, work: Callable[[], None]) -> None:
        """On the backlog's thread, the only one that sets ``_failed``: hence one warning."""
        if self._failed:
            return
        try:
            work()
        except OSError as error:
            self._failed = True
            log.warning(
                "nothing more is written to the feature cache in %s: %s", self._folder, error
            )

    def _identity(self, name: str) -> str:
        return f"{self._model} {name}"


def _name(key: str) -> str:
    """A key as a file's name. Keys come from outside: only their hash ever gets into a path."""
    return hashlib.sha256(key.encode()).hexdigest()
