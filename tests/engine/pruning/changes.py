"""Changes with items to choose from, as they come out of a request."""

from __future__ import annotations

import numpy as np

from agentserve.core.pruning import Compression, Eviction, Pruning
from agentserve.engine.eviction.change import Change, Open, Sealed


def open_item(start: int, box: tuple[int, int], tokens: list[int] | None = None) -> Open:
    """Of a screen of its own size; ``tokens``: which of them may stay."""
    rows, columns = box
    places = tuple(range(rows * columns)) if tokens is None else tuple(tokens)
    return Open(
        start=start,
        tokens=places,
        raster=places,
        content=f"pixels {start}",
        screen=box,
        box=(0, 0, rows, columns),
        base=start,
        time=start,
        history="5" * 64,
    )


def change_with(
    *items: Open, length: int, pruning: Pruning | None = None, eviction: Eviction | None = None
) -> Change:
    """Of a prompt of ``length`` tokens, all of which stay but those of items that may not."""
    stays = np.ones(length, bool)
    for item in items:
        own = stays[item.start : item.start + item.box[2] * item.box[3]]
        own[:] = False
        own[list(item.tokens)] = True
    rows = np.flatnonzero(stays)
    sealed = []
    for item in items:
        start = int(np.searchsorted(rows, item.start + item.tokens[0]))
        every = np.arange(len(item.tokens))
        sealed.append(Sealed(start, start + len(every), item.identity(every)))
    return Change(
        owner="me",
        length=length,
        kept=np.packbits(stays).tobytes(),
        sealed=tuple(sealed),
        open=items,
        compression=Compression(pruning=pruning, eviction=eviction),
    )
