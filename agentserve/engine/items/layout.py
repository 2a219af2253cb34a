"""Where a prompt's tokens lie: ids, M-RoPE positions and spans, from its pictures and anchors.

Pure. Positions are (t, h, w), one column a token. Text has three equal numbers. A token of a screen
with base b in row r and column c of the token grid has (time, b + r, b + c), where time is b unless
given; text behind continues at b + max(rows, columns) of the whole screen, however little of it is
there, but never before the text it follows. For a whole picture at the next text position this is
what Qwen2-VL's authors define, and what transformers computes in ``get_rope_index``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from agentserve.core.errors import InvalidRequest
from agentserve.core.item_urls import ItemMeta, TextAnchor, kept_tokens
from agentserve.core.plans import Seal, Selection
from agentserve.core.pruning import kept_count


@dataclass(frozen=True)
class Picture:
    """One image of the prompt, in tokens of the grid; an ordinary one is its own screen."""

    screen: tuple[int, int]
    """Rows and columns."""
    box: tuple[int, int, int, int]
    """First row, first column, rows, columns."""
    kept: np.ndarray | None = None
    """Indices of the kept tokens, int64, ascending. None: all."""
    base: int | None = None
    time: int | None = None
    seal: Seal | None = None
    item: bool = False
    """Whether it came with metadata."""
    selection: Selection | None = None
    """While it is not done, ``kept`` stands for as many tokens only."""

    @property
    def tokens(self) -> int:
        """In the prompt."""
        return self.box[2] * self.box[3] if self.kept is None else len(self.kept)


@dataclass(frozen=True)
class Span:
    """Where a picture's tokens are in the prompt."""

    start: int
    end: int
    """One behind the last."""
    base: int
    time: int
    ordinary: bool
    """Whether the tokens and their positions are those of an ordinary image at this place."""


@dataclass(frozen=True)
class SealedText:
    """A text token that must not share KV with the same token elsewhere."""

    index: int
    """In the laid-out ids."""
    token: int
    position: int
    seal: Seal | None
    """None: only its position is another than the next one."""


@dataclass
class Layout:
    """A prompt as the engine runs it."""

    ids: list[int] = field(default_factory=list)
    """Every picture's token repeated as often as it has tokens."""
    spans: list[Span] = field(default_factory=list)
    """Of the pictures, in order."""
    sealed: list[SealedText] = field(default_factory=list)
    next_position: int = 0
    """Of the first token behind the prompt."""
    _columns: list[np.ndarray] = field(default_factory=list)

    @property
    def positions(self) -> np.ndarray:
        """int64 [3, len(ids)]."""
        return np.concatenate([np.zeros((3, 0), np.int64), *self._columns], axis=1)

    def text(self, ids: Sequence[int]) -> None:
        """Add text from the next position on."""
        end = self.next_position + len(ids)
        self._columns.append(np.tile(np.arange(self.next_position, end), (3, 1)))
        self.ids.extend(ids)
        self.next_position = end

    def anchor(self, anchor: TextAnchor, token: int) -> None:
        """Have the text that comes now, which begins with ``token``, lie where ``anchor`` says."""
        position = self.next_position if anchor.position is None else anchor.position
        if anchor.seal is not None or position != self.next_position:
            self.sealed.append(SealedText(len(self.ids), token, position, anchor.seal))
        self.next_position = position

    def picture(self, picture: Picture, token: int, screen_base: int | None) -> None:
        """Add a picture; ``screen_base`` is that of the screen it continues, if it does."""
        natural = self.next_position
        base = picture.base
        if base is None:
            base = natural if screen_base is None else screen_base
        time = base if picture.time is None else picture.time
        top, left, rows, columns = picture.box
        h, w = np.divmod(np.arange(rows * columns), columns)
        place = np.stack((np.full_like(h, time), base + top + h, base + left + w))
        ordinary = (
            picture.box == (0, 0, *picture.screen)
            and picture.kept is None
            and picture.seal is None
            and base == natural == time
        )
        self._columns.append(place if picture.kept is None else place[:, picture.kept])
        self.spans.append(Span(len(self.ids), len(self.ids) + picture.tokens, base, time, ordinary))
        self.ids.extend([token] * picture.tokens)
        self.next_position = max(natural, base + max(picture.screen), time + 1)


def picture_of(meta: ItemMeta, grid: int) -> Picture:
    """An item's picture; ``grid`` is the edge of one token in px.

    Raises InvalidRequest when the box or the screen is not on the grid, or for a bad keep set.
    """
    box, screen = meta.box, meta.screen
    edges = (box.y, box.x, box.height, box.width, screen.height, screen.width)
    if any(edge % grid for edge in edges):
        raise InvalidRequest(f"the box {box} of the screen {screen} is not on the {grid} px grid")
    top, left, rows, columns, high, wide = (edge // grid for edge in edges)
    kept = None
    if meta.keep is not None:
        kept = kept_tokens(meta.keep, rows * columns)
        if len(kept) == rows * columns:
            kept = None
    if meta.selection is not None and not meta.selection.done:
        sent = np.arange(rows * columns) if kept is None else kept
        kept = sent[: kept_count(meta.selection.pruning, len(sent))]
    return Picture(
        screen=(high, wide),
        box=(top, left, rows, columns),
        kept=kept,
        base=meta.base,
        time=meta.time,
        seal=meta.seal,
        item=True,
        selection=meta.selection,
    )


def lay_out(
    ids: Sequence[int],
    image_token: int,
    pictures: Sequence[Picture],
    anchors: Sequence[TextAnchor] = (),
) -> Layout:
    """The prompt ``ids``, with one ``image_token`` for each picture, laid out.

    Raises InvalidRequest when pictures and image tokens differ in number, or an anchor is not on a
    text token of its own.
    """
    places = [index for index, token in enumerate(ids) if token == image_token]
    if len(places) != len(pictures):
        raise InvalidRequest(
            f"the prompt has {len(places)} image tokens for {len(pictures)} pictures",
            hint="send input_ids with one image token for each picture",
        )
    at = {anchor.index: anchor for anchor in anchors}
    for index in at:
        if index >= len(ids) or ids[index] == image_token:
            raise InvalidRequest(f"a text anchor's index {index} is that of no text token")
    if len(at) != len(anchors):
        raise InvalidRequest("two text anchors have the same index")
    layout = Layout()
    cursor, before = 0, None
    following = iter(pictures)
    for index in sorted({*places, *at}):
        if index > cursor:
            layout.text(ids[cursor:index])
            cursor, before = index, None
        if index in at:
            layout.anchor(at[index], ids[index])
            continue
        picture = next(following)
        continues = (
            before is not None and before.item and picture.item and before.screen == picture.screen
        )
        layout.picture(picture, image_token, layout.spans[-1].base if continues else None)
        cursor, before = index + 1, picture
    layout.text(ids[cursor:])
    return layout
