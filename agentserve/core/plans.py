"""What a prompt is made of. A session's transcript and the plan of one prompt share one schema.

A *piece* is either text, kept as the token ids that were really sent or generated (so that no turn
ever tokenises an earlier one differently), or a *visual item*. The transcript is the list of
pieces of every completed turn; a *plan* is what of it the next prompt contains, followed by the
items of the new screen.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Literal

from pydantic import Field, StringConstraints

from agentserve.core.model import Wire
from agentserve.core.pruning import Pruning
from agentserve.core.screens import Size

Sha256 = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]


class Box(Wire):
    """A rectangle of the screen in model px, edges on the model's token grid."""

    x: Annotated[int, Field(ge=0)]
    y: Annotated[int, Field(ge=0)]
    width: Annotated[int, Field(ge=1)]
    height: Annotated[int, Field(ge=1)]


class Seal(Wire):
    """Marks the first piece whose KV was computed while something since removed was visible.

    KV is no pure function of the tokens before it: the same tokens computed with and without the
    removed ones differ. Two sequences share KV behind a removal only when their seals are equal.
    """

    history: Sha256
    """Of everything the KV was computed under, the removed pieces included. Of the session, not of
    the cache: a cache that lost the KV computes it from the live tokens alone, and keeps the two
    apart by itself."""


class TextPiece(Wire):
    """Token ids of one stretch of text; ``text`` is for people and logs, never re-tokenised."""

    kind: Literal["text"] = "text"
    ids: list[int]
    text: str = ""
    position: Annotated[int, Field(ge=0)] | None = None
    """The text position (M-RoPE, t = h = w) of the first id. None: it follows what is before."""
    seal: Seal | None = None


class Thinning(Wire):
    """That tokens of an item are chosen from while its turn is answered (core.pruning)."""

    by: Sha256
    """Of the settings: KV behind the item depends on them."""
    keep: str | None = None
    """The keep set that the worker told, like the item's own. None: not answered yet, or nothing
    was taken."""


class Selection(Wire):
    """That a method chooses an item's tokens from what the vision encoder makes of it."""

    pruning: Pruning
    sent: str | None = None
    """What there was to choose from: a bitmap like the item's ``keep``. None: all."""
    done: bool = False
    """Whether ``keep`` is the choice; before, it is the same as ``sent``, and ``tokens`` alone says
    how many will be left."""


class VisualItem(Wire):
    """A picture in the prompt: the blob with its pixels, its size and its tokens in the LLM.

    ``begin`` and ``end`` are the ids of the vision markers around it. They belong to the item and
    to no text piece, so that a policy which drops the item leaves no marker behind. The program
    host fills them in (only it has a tokenizer): they are empty in a plan's new screen, set in
    the pieces of a HostAnswer and from there on. The parts of one screen stand side by side within
    one pair of markers: the first part has ``begin``, the last one ``end``, also when the parts
    that came before or behind them have left the prompt.
    """

    kind: Literal["image"] = "image"
    blob: Sha256
    size: Size
    tokens: Annotated[int, Field(ge=1)]
    turn: int
    begin: list[int] = Field(default_factory=list)
    end: list[int] = Field(default_factory=list)
    screen: Size | None = None
    """Of a part of a screen: the whole screen's size. None: an ordinary picture of its own."""
    box: Box | None = None
    """Which part of the screen; ``size`` is the box's size and ``blob`` has its pixels only."""
    base: Annotated[int, Field(ge=0)] | None = None
    """Position of the screen's first token: a token at (x, y) px of the screen has the M-RoPE
    position (time, base + y/grid, base + x/grid). None: the next text position."""
    time: Annotated[int, Field(ge=0)] | None = None
    """The t of the item's positions. None: ``base``."""
    position: Annotated[int, Field(ge=0)] | None = None
    """Of a part of a screen: the text position of its first marker, or of where it would be. See
    ``end_position``."""
    keep: str | None = None
    """Which merged tokens of the item are in the sequence: base64 of a bitmap in raster order, the
    first token the highest bit of the first byte. None: all. ``tokens`` counts the kept ones."""
    covers: str | None = None
    """Which tokens of the box the item stands for, kept or not: these places it takes from older
    items, and loses to newer ones. A bitmap like ``keep`` and a superset of it. None: the same."""
    selection: Selection | None = None
    """Of an item that is pruned behind the vision encoder."""
    shared: bool = False
    """Whether other sessions may hold the item in their prefix."""
    thinning: Thinning | None = None
    """Of an item that is not settled yet (see vision.settle)."""
    seal: Seal | None = None
    """On the first visual token: a screen's ``begin`` comes before all that may be removed."""
    end_seal: Seal | None = None
    """On ``end``, when parts between the item and it were removed."""

    @property
    def prompt_tokens(self) -> int:
        """All that the item takes in a prompt: its visual tokens and its markers."""
        return len(self.begin) + self.tokens + len(self.end)

    def end_position(self, grid: int) -> int:
        """The text position behind a part of a screen, of its ``end`` if it has one: beyond the
        whole screen, whatever part of it is there. ``grid`` is a token's edge in px."""
        assert self.screen is not None and self.base is not None and self.position is not None
        extent = max(self.screen.width, self.screen.height) // grid
        time = self.base if self.time is None else self.time
        return max(self.position + len(self.begin), self.base + extent, time + 1)


Piece = Annotated[TextPiece | VisualItem, Field(discriminator="kind")]


class Plan(Wire):
    """The prompt of one turn, up to the text that the program adds.

    ``prior`` is taken from the transcript, ``screen`` is new. ``move`` names the reason when
    ``prior`` is not what the worker holds since the turn before: the prefix cache then cannot hold
    it.
    """

    prior: list[Piece]
    screen: list[VisualItem]
    move: str | None = None
    forked: bool = False
    """Whether another session goes on from ``prior`` as well."""
    superseded: list[int] = Field(default_factory=list)
    """Which of ``prior`` (indices of visual items) lose tokens to ``screen``. They are in this
    prompt, and leave the cache once the turn is answered: see vision.settle."""

    @property
    def mosaic(self) -> bool:
        """Whether screens are sent in parts, and pieces have positions."""
        items = [p for p in [*self.prior, *self.screen] if isinstance(p, VisualItem)]
        return any(item.screen is not None for item in items)

    @property
    def prior_tokens(self) -> int:
        return num_tokens(self.prior)

    @property
    def visual_tokens(self) -> int:
        return sum(p.tokens for p in [*self.prior, *self.screen] if isinstance(p, VisualItem))


def next_position(pieces: Sequence[Piece], grid: int) -> int:
    """The text position behind the pieces of a mosaic session, all of which have positions."""
    following = 0
    for piece in pieces:
        assert piece.position is not None
        if isinstance(piece, TextPiece):
            end = piece.position + len(piece.ids)
        else:
            end = piece.end_position(grid) + len(piece.end)
        following = max(following, end)
    return following


def num_tokens(pieces: list[Piece]) -> int:
    """Prompt tokens of the pieces, the items' vision markers included."""
    return sum(len(p.ids) if isinstance(p, TextPiece) else p.prompt_tokens for p in pieces)
