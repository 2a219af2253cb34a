"""How often a chunk ended inside a picture: counted where it runs, whoever chose its size."""

from __future__ import annotations

from typing import Any
from weakref import WeakKeyDictionary

from agentserve.engine import compat_chunking as compat
from agentserve.engine.chunking.cut import cut_at
from agentserve.engine.compat_pruning import extents

_cuts: WeakKeyDictionary[Any, int] = WeakKeyDictionary()


def count_cuts(_: Any, batch: Any, *__: Any, **___: Any) -> None:
    """BEFORE TpModelWorker.forward_batch_generation."""
    for request, _start, extent in extents(batch) or ():
        if cuts := cut_at(extent.end, compat.pictures(request)):
            _cuts[request] = cuts_of(request) + cuts


def cuts_of(request: Any) -> int:
    """Chunks of the request's prompt, so far, that ended inside a picture."""
    return _cuts.get(request, 0)
