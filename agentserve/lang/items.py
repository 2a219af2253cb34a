"""The pieces of a mosaic session as the engine reads them: token ids, and metadata by picture.

The engine lays a prompt out by itself: text follows what is before it, a screen lies behind the
text. Only where a piece's own position, or its seal, says otherwise, an anchor tells.
"""

from __future__ import annotations

from collections.abc import Sequence

from agentserve.core.item_urls import ItemMeta, TextAnchor
from agentserve.core.plans import Piece, Seal, TextPiece, VisualItem


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
