"""How the router's process keeps memory: screenshots come and go by the megabyte."""

from __future__ import annotations

import ctypes
import gc
import sys

from agentserve.core.config import MIB

_TRIM_THRESHOLD, _MMAP_THRESHOLD, _ARENA_MAX = -1, -3, -8
"""Of glibc's ``mallopt``."""
_KEPT = 128 * MIB
"""Freed memory that stays with the process."""
_MAPPED = 32 * MIB
"""From this size on, memory comes from the kernel each time: the most that glibc allows."""

_COLLECT_AFTER = 20_000
"""New objects between two collections of the young ones."""


def keep_freed_memory() -> None:
    """Reuse freed memory. glibc gives a body's worth back to the kernel at once, and to have it
    mapped anew, page by page, takes more time than all else that is done with the body. Nothing
    where there is no glibc."""
    if sys.platform == "linux":
        mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
        if mallopt is not None:
            mallopt(_TRIM_THRESHOLD, _KEPT)
            mallopt(_MMAP_THRESHOLD, _MAPPED)
            # threads that have memory each do not use what another has freed
            mallopt(_ARENA_MAX, 1)


def spare_what_is_loaded() -> None:
    """Leave what is there now out of garbage collections: modules, routes and models, which stay.
    Call it when all is started. What comes later is looked at less often: a request makes hundreds
    of objects, and hardly a cycle among them."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(_COLLECT_AFTER, 20, 20)
