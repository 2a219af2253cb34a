"""The pieces of a mosaic session as the engine reads them: token ids, and metadata by picture.

The engine lays a prompt out by itself: text follows what is before it, a screen lies behind the
text. Only where a piece's own position, or its seal, says otherwise, an anchor tells.
"""

from __future__ import annotations

import base64
from collections.abc import Sequence

import numpy as np

from agentserve.core.item_urls import After, ItemAfter, ItemMeta, TextAnchor, keep_set
from agentserve.core.plans import Piece, Seal, TextPiece, VisualItem
from agentserve.core.pruning import Compression


class _Form:
    def __init__(self, grid: int) -> None:
        self._grid = grid
        self.ids: list[int] = []
        self.anchors: list[TextAnchor] = []
        self._next = 0
        """Where the engine would put the next text token."""

    def text(self, ids: Sequence[int], position: int, seal: Seal | None) -> None:
        if not ids:
            return
        if seal is not None or position != self._next:
            self.anchors.append(TextAnchor(index=len(self.ids), position=position, seal=seal))
        self.ids.extend(ids)
        self._next = position + len(ids)

    def part(self, item: VisualItem, image_id: int) -> ItemMeta:
        screen, position = item.screen, item.position
        assert screen is not None and item.box is not None
        assert position is not None and item.base is not None
        self.text(item.begin, position, None)
        self.ids.append(image_id)
        self._next = item.base + max(screen.width, screen.height) // self._grid
        self.text(item.end, item.end_position(self._grid), item.end_seal)
        return ItemMeta(
            screen=screen,
            box=item.box,
            base=item.base,
            time=item.time,
            keep=item.keep,
            selection=item.selection,
            seal=item.seal,
        )


def engine_form(
    pieces: Sequence[Piece], image_id: int, grid: int
) -> tuple[list[int], list[ItemMeta]]:
    """The ids, one ``image_id`` for each item, and each item's metadata; ``grid`` in px.

    All pieces have positions, all items are parts of screens. The anchors of the whole prompt are
    with the first item: without any item the text has none, it simply follows itself.
    """
    form = _Form(grid)
    metas: list[ItemMeta] = []
    for piece in pieces:
        if isinstance(piece, TextPiece):
            assert piece.position is not None
            form.text(piece.ids, piece.position, piece.seal)
        else:
            metas.append(form.part(piece, image_id))
    if metas:
        metas[0] = metas[0].model_copy(update={"texts": form.anchors})
    return form.ids, metas


def after_form(
    pieces: Sequence[Piece],
    settled: Sequence[Piece],
    image_id: int,
    grid: int,
    *,
    owner: str,
    forked: bool,
    compression: Compression,
) -> After:
    """What of the prompt ``pieces`` stays in the cache once it is answered: ``settled``, which is
    the same with some items smaller or gone. Of the items that are to be thinned the engine
    chooses what stays, as ``compression`` says. ``owner`` and ``forked`` as in After: they are
    told also when all of it stays."""
    _, metas = engine_form(settled, image_id, grid)
    stays = _stays(pieces, settled)
    thinned = [p for p in pieces if isinstance(p, VisualItem) and p.thinning is not None]
    left = [p for p in settled if isinstance(p, VisualItem)]
    chosen = [any(_same(item, other) for other in thinned) for item in left]
    pruning = compression.pruning
    return After(
        kept=keep_set(np.flatnonzero(stays), len(stays)),
        items=[
            ItemAfter(keep=meta.keep, seal=meta.seal, chosen=choose)
            for meta, choose in zip(metas, chosen, strict=True)
        ],
        texts=metas[0].texts if metas else [],
        owner=owner,
        forked=forked,
        pruning=pruning if any(chosen) and pruning is not None and pruning.inside else None,
        eviction=compression.eviction if any(chosen) else None,
    )


def _stays(pieces: Sequence[Piece], settled: Sequence[Piece]) -> list[bool]:
    """For each id of the prompt whether it stays. The markers around a screen stay as long as any
    part of the screen does."""
    left = [item for item in settled if isinstance(item, VisualItem)]
    parts: dict[int, bool] = {}  # by index in pieces; of two equal parts the later one stays
    for index in reversed(range(len(pieces))):
        piece = pieces[index]
        if isinstance(piece, VisualItem):
            parts[index] = bool(left) and _same(piece, left[-1])
            if parts[index]:
                left.pop()
    assert not left, "what stays is part of what was sent"

    stays: list[bool] = []
    for index, piece in enumerate(pieces):
        if isinstance(piece, TextPiece):
            stays += [True] * len(piece.ids)
            continue
        if piece.begin:
            end = next(i for i in range(index, len(pieces)) if _ends(pieces[i]))
            screen_stays = any(parts[i] for i in range(index, end + 1))
        stays += [screen_stays] * len(piece.begin)
        stays.append(parts[index])
        stays += [screen_stays] * len(piece.end)
    return stays


def _same(piece: VisualItem, settled: VisualItem) -> bool:
    """Whether ``settled`` is what is left of ``piece``. Two items of one picture share no token."""
    names = ("turn", "box", "base", "time", "blob")
    if any(getattr(piece, name) != getattr(settled, name) for name in names):
        return False
    return piece.keep is None or (
        settled.keep is not None and not _bits(settled.keep) & ~_bits(piece.keep)
    )


def _bits(keep: str) -> int:
    return int.from_bytes(base64.b64decode(keep))


def _ends(piece: Piece) -> bool:
    return isinstance(piece, VisualItem) and bool(piece.end)
