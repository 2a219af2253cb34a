"""How a visual item reaches the engine: metadata inside the data URL of its picture.

    data:image/png;agentserve=<base64 of JSON>;base64,<base64 of a PNG>

SGLang's ``/generate`` refuses unknown keys beside a picture, but reads of a data URL only what is
behind the comma: to a server without the plugin the same URL is an ordinary picture.
"""

from __future__ import annotations

import base64
from typing import Annotated

import numpy as np
from pydantic import Field, ValidationError, model_validator

from agentserve.core.errors import InvalidRequest
from agentserve.core.model import Wire
from agentserve.core.plans import Box, Seal, Selection
from agentserve.core.pruning import Eviction, Pruning
from agentserve.core.screens import Size

PREFIX = "data:image/png;agentserve="
MAX_META = 1 << 20
"""Characters of base64 before the pixels; a long session's text anchors take tens of thousands."""
MAX_POSITION = 1 << 30
"""Far beyond every model's context; an engine has a tighter limit."""

_SEPARATOR = ";base64,"
_PNG_HEAD = b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR"
_HEAD_LENGTH = 24
"""Bytes up to and including the width and the height of a PNG."""

Position = Annotated[int, Field(ge=0, le=MAX_POSITION)]


class TextAnchor(Wire):
    """Where a stretch of text lies that does not simply follow what is before it."""

    index: Annotated[int, Field(ge=0)]
    """Its first id, counted in the prompt's ids as sent: every picture is one image token. A
    sealed item's vision markers are text, too: the seal is on the first of them."""
    position: Position | None = None
    """Of that id (t = h = w). None: the next text position."""
    seal: Seal | None = None


class ItemAfter(Wire):
    """What becomes of a picture that stays in the cache."""

    keep: str | None = None
    """The whole keep set, in the raster of the item itself. None: all of its tokens."""
    seal: Seal | None = None
    chosen: bool = False
    """Whether the engine chooses which of these stay, as ``After.pruning`` and ``After.eviction``
    say; the answer tells. It may be all of them: the seal is there in any case."""


class After(Wire):
    """What of a prompt stays in the cache once it is answered, and how later prompts name it.

    Tokens only leave, none moves. The first kept token behind a removed one is sealed, and so is an
    item that loses tokens of its own: their KV is what it was with the removed tokens in sight.
    """

    owner: Annotated[str, Field(min_length=1, max_length=200)]
    """Whose prompt it is, an opaque id: what one owner's next prompt continues, no other's removal
    takes away."""
    kept: str
    """Base64 of a bitmap over the prompt's ids as sent: which of them stay. A picture that keeps
    some of its tokens stays."""
    items: Annotated[list[ItemAfter], Field(max_length=4096)] = Field(default_factory=list)
    """Of every picture that stays, in order."""
    texts: Annotated[list[TextAnchor], Field(max_length=4096)] = Field(default_factory=list)
    """The anchors of what is left; an index counts the ids that stay."""
    forked: bool = False
    """Whether another owner goes on from where this prompt began: what was in the cache before it
    stays there, and what changes is copied."""
    pruning: Pruning | None = None
    """A method inside the model, for the chosen items together: what it drops is gone from the
    prompt before the answer begins."""
    eviction: Eviction | None = None
    """Of the chosen items together, once the prompt is answered."""

    @model_validator(mode="after")
    def _some_chosen(self) -> After:
        if self.pruning is not None and not self.pruning.inside:
            raise ValueError(f"{self.pruning.method} works before the language model")
        asked = self.pruning is not None or self.eviction is not None
        if asked != any(item.chosen for item in self.items):
            raise ValueError("items are chosen from when a pruning or an eviction says how")
        return self


class ItemMeta(Wire):
    """What the engine knows of an item besides its pixels; the fields of ``VisualItem``.

    Items of one screen that follow each other without an id between them need ``base`` only once.
    """

    screen: Size
    box: Box
    base: Position | None = None
    """None: the next text position; right behind an item of the same screen: that item's."""
    time: Position | None = None
    """The t of the item's positions. None: ``base``."""
    keep: str | None = None
    selection: Selection | None = None
    seal: Seal | None = None
    texts: Annotated[list[TextAnchor], Field(max_length=4096)] = Field(default_factory=list)
    """Anchors of the whole prompt's text. Any item may carry them; those of all items count."""
    after: After | None = None
    """Of the whole prompt, with its first item only. None: all of it stays."""

    @model_validator(mode="after")
    def _inside(self) -> ItemMeta:
        box, screen = self.box, self.screen
        if box.x + box.width > screen.width or box.y + box.height > screen.height:
            raise ValueError(f"the box {box} is not inside the screen {screen}")
        return self


def item_url(meta: ItemMeta, png: str) -> str:
    """The data URL; ``png`` is base64 of a PNG of the box's size."""
    text = meta.model_dump_json(exclude_defaults=True)
    return f"{PREFIX}{base64.b64encode(text.encode()).decode()}{_SEPARATOR}{png}"


def parse_item_url(url: str) -> ItemMeta | None:
    """The metadata in ``url``; None when it is not an item's.

    Looks at the PNG's header only. Raises InvalidRequest for metadata that is malformed, or of
    another size than the picture.
    """
    if not url.startswith(PREFIX):
        return None
    end = url.find(_SEPARATOR, len(PREFIX), len(PREFIX) + MAX_META + len(_SEPARATOR))
    if end < 0:
        raise InvalidRequest(
            f"an item's metadata does not end with {_SEPARATOR!r} within {MAX_META} characters"
        )
    text = _decode(url[len(PREFIX) : end], "an item's metadata")
    try:
        meta = ItemMeta.model_validate_json(text, strict=True)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(map(str, first["loc"])) or "as a whole"
        raise InvalidRequest(f"an item's metadata, {where}: {first['msg']}") from None
    size = _png_size(url[end + len(_SEPARATOR) :][: _HEAD_LENGTH * 4 // 3])
    if size != (meta.box.width, meta.box.height):
        raise InvalidRequest(
            f"an item's picture is {size[0]}x{size[1]}, its box {meta.box.width}x{meta.box.height}"
        )
    return meta


def kept_tokens(keep: str, tokens: int) -> np.ndarray:
    """Indices of the kept tokens, int64, ascending; ``tokens`` is the item's number without it.

    Raises InvalidRequest for what is no bitmap of that many tokens, and for an empty one: an item
    of which nothing is left has no place in a prompt.
    """
    packed = np.frombuffer(_decode(keep, "a keep set"), np.uint8)
    bits = np.unpackbits(packed)
    if len(packed) != (tokens + 7) // 8 or bits[tokens:].any():
        raise InvalidRequest(f"a keep set of {len(packed)} bytes is none of {tokens} tokens")
    kept = np.flatnonzero(bits)
    if not len(kept):
        raise InvalidRequest("a keep set is empty: leave the item out instead")
    return kept


def keep_set(kept: np.ndarray, tokens: int) -> str:
    """The way back: base64 of the bitmap in which the tokens ``kept`` (indices) are set."""
    bits = np.zeros(tokens, np.uint8)
    bits[kept] = 1
    return base64.b64encode(np.packbits(bits).tobytes()).decode()


def _png_size(head: str) -> tuple[int, int]:
    data = _decode(head, "an item's picture")
    if len(data) < _HEAD_LENGTH or not data.startswith(_PNG_HEAD):
        raise InvalidRequest("an item's picture is not a PNG")
    return int.from_bytes(data[16:20], "big"), int.from_bytes(data[20:24], "big")


def _decode(text: str, what: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except ValueError as error:
        raise InvalidRequest(f"{what} is not base64: {error}") from None
