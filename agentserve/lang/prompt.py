"""The prompt of one turn while its program writes it: prior pieces, then the new ones.

What the worker's KV cache holds after a turn decides how the pieces end. It holds every token of
the last call but the last one generated, whose KV was never computed::

    … <|im_start|> assistant \\n   click 112 84   <|im_end|>          \\n
    └──────── cached ────────────────────────┘   generated, dropped   program's, held back

So a *stop* (the stop token, the text of a stop string) is not part of the generated pieces, and the
end of the last message is held back until something follows it: in a later turn, if need be. The
pieces of a turn whose last words are the model's are then exactly what the cache holds (but for the
last token where a stop string ends inside one). A turn that resumes sees from the ids alone whether
the message before it is still open.

In a mosaic session every piece has its absolute position, because what lies before it may leave the
prompt: text continues behind the whole screen, however little of it was sent.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from agentserve.core.families import Family
from agentserve.core.item_urls import ItemMeta, item_url
from agentserve.core.plans import Piece, TextPiece, VisualItem, next_position
from agentserve.core.pruning import Compression
from agentserve.lang.items import after_form, engine_form
from agentserve.lang.tokenizer import SessionTokenizer
from agentserve.vision.settle import is_part, settle


@dataclass(frozen=True)
class CallInput:
    """A prompt as a worker gets it."""

    ids: list[int]
    """One image token for each picture."""
    blobs: list[str]
    """Of the pictures, in order."""
    metas: list[ItemMeta] | None = None
    """What the engine is told of each picture of a mosaic. None: they are ordinary ones."""

    def pictures(self, images: Mapping[str, str]) -> list[str]:
        """``image_data`` of the worker's API, from the base64 of each blob."""
        pictures = [images[blob] for blob in self.blobs]
        return pictures if self.metas is None else list(map(item_url, self.metas, pictures))


class Prompt:
    """Collects text, screens and generated ids, in order."""

    def __init__(
        self,
        prior: list[Piece],
        tokenizer: SessionTokenizer,
        family: Family,
        *,
        mosaic_of: str | None = None,
        forked: bool = False,
        compression: Compression = Compression(),
    ) -> None:
        """``mosaic_of``: a session whose pieces have positions, and which evicts what newer parts
        of its screen cover; ``forked``: another one goes on from ``prior`` as well;
        ``compression``: how the engine chooses from the items that are marked for it.

        Raises WorkerRefused when the tokenizer lacks the family's special tokens.
        """
        self.tokenizer = tokenizer
        self.family = family
        self._image_id = tokenizer.special_id(family.image_token)
        self._image_begin = tokenizer.encode_markers(family.image_begin)
        self._image_end = tokenizer.encode_markers(family.image_end)
        self._role_end = tokenizer.encode_markers(family.role_end)
        self._prior = list(prior)
        self._new: list[Piece] = []
        self._run: tuple[list[int], list[str]] = ([], [])
        """Ids and texts of the text piece in the making."""
        self._plain = ""
        """Text not tokenised yet: neighbouring strings of a program are tokenised as one."""
        self._end_due = self._ends_open(prior)
        self._owner = mosaic_of
        self._forked = forked
        self._compression = compression
        self._answered = False
        self._position = next_position(prior, family.grid) if mosaic_of else None
        """Of the next text token, once the text piece in the making is closed."""

    def text(self, value: str) -> None:
        """Text of the program. Special tokens' names in it stay text."""
        if value:
            self._close_message()
            self._plain += value

    def begin_message(self, role: str) -> None:
        self._close_message()
        self._markers(self.family.role_begin.format(role=role))

    def end_message(self) -> None:
        """End the message, as soon as something follows."""
        self._close_message()
        self._end_due = True

    def screen(self, items: tuple[VisualItem, ...]) -> None:
        """The screen's items: whole pictures with their own vision markers, the parts of a screen
        within one pair."""
        self._close_message()
        self._close_run()
        if self._position is not None:
            self._parts(items)
            return
        markers = {"begin": self._image_begin, "end": self._image_end}
        self._new.extend(item.model_copy(update=markers) for item in items)

    def generated(self, ids: list[int], text: str) -> None:
        """Ids that a call added (see ``kept_ids``), and their text."""
        self._close_message()
        self._tokenise()
        self._append(ids, text)

    def pieces(self) -> list[Piece]:
        """The new pieces so far."""
        self._tokenise()
        self._close_run()
        return list(self._new)

    def call_input(self) -> CallInput:
        """What a call sends now.

        In a mosaic, what this turn's screen covers is in the first call's prompt and leaves the
        cache with its answer (see vision.settle): later calls of the turn go on without it.
        """
        self._close_message()
        pieces = [*self._prior, *self.pieces()]
        if self._owner is None:
            return _plain_input(pieces, self._image_id)
        grid = self.family.grid
        settled = settle(pieces, grid)
        if self._answered:
            pieces = settled
        ids, metas = engine_form(pieces, self._image_id, grid)
        if metas:
            after = after_form(
                pieces,
                settled,
                self._image_id,
                grid,
                owner=self._owner,
                forked=self._forked and not self._answered,
                compression=self._compression,
            )
            metas[0] = metas[0].model_copy(update={"after": after})
        return CallInput(ids, _blobs(pieces), metas)

    def answered(self, keeps: Sequence[str] = (), selected: Sequence[str] = ()) -> None:
        """The worker has answered a call with the prompt so far.

        ``selected``: what it chose of each item from the vision encoder's output; ``keeps``: what
        it left of each item that was to be thinned, in order; nothing when it did not choose.
        """
        self._answered = True
        left, chosen = iter(keeps), iter(selected)
        for index, piece in enumerate(self._new):
            if isinstance(piece, VisualItem) and piece.selection and not piece.selection.done:
                done = piece.selection.model_copy(update={"done": True})
                piece = piece.model_copy(update={"keep": next(chosen), "selection": done})
                self._new[index] = piece
            thins = isinstance(piece, VisualItem) and piece.thinning is not None
            if thins and piece.thinning.keep is None:
                thinning = piece.thinning.model_copy(update={"keep": next(left, None)})
                self._new[index] = piece.model_copy(update={"thinning": thinning})

    def _parts(self, items: tuple[VisualItem, ...]) -> None:
        """Give the parts of a screen their markers and positions. What the plan left open, their
        place, is behind the text so far."""
        if not items:
            return
        if isinstance((self._new or self._prior or [None])[-1], VisualItem):
            # A seal behind the screen before, if need be, lies on the text between the two.
            self._append(self.tokenizer.encode("\n"), "\n")
            self._close_run()
        if self._answered:  # the engine chooses once a turn, with its first call
            items = tuple(item.model_copy(update={"thinning": None}) for item in items)
        start = self._position
        assert start is not None
        inside = start + len(self._image_begin)
        for index, item in enumerate(items):
            first, last = index == 0, index == len(items) - 1
            changes = {
                "begin": self._image_begin if first else [],
                "end": self._image_end if last else [],
                "position": start if first else inside,
                "base": inside if item.base is None else item.base,
            }
            self._new.append(item.model_copy(update=changes))
        self._position = next_position(self._new[-1:], self.family.grid)

    def _ends_open(self, pieces: list[Piece]) -> bool:
        """Whether a message has begun in ``pieces`` and not ended. Text cannot feign either: only
        markers are special tokens."""
        begin = self.tokenizer.encode_markers(self.family.role_begin)[0]
        end = self._role_end[0]
        for piece in reversed(pieces):
            if isinstance(piece, TextPiece):
                for token in reversed(piece.ids):
                    if token in (begin, end):
                        return token == begin
        return False

    def _close_message(self) -> None:
        if self._end_due:
            self._end_due = False
            self._markers(self.family.role_end)

    def _markers(self, text: str) -> None:
        self._tokenise()
        self._append(self.tokenizer.encode_markers(text), text)

    def _tokenise(self) -> None:
        if self._plain:
            self._append(self.tokenizer.encode(self._plain), self._plain)
            self._plain = ""

    def _append(self, ids: list[int], text: str) -> None:
        self._run[0].extend(ids)
        self._run[1].append(text)

    def _close_run(self) -> None:
        self._tokenise()
        ids, texts = self._run
        if ids:
            self._new.append(TextPiece(ids=ids, text="".join(texts), position=self._position))
            if self._position is not None:
                self._position += len(ids)
        self._run = ([], [])


def prefix_input(pieces: Sequence[Piece], tokenizer: SessionTokenizer, family: Family) -> CallInput:
    """The pieces of earlier turns on their own, as the next turn's prompt will begin with them.

    Raises WorkerRefused when the tokenizer lacks the family's special tokens.
    """
    image_id = tokenizer.special_id(family.image_token)
    if not any(is_part(piece) for piece in pieces):
        return _plain_input(pieces, image_id)
    ids, metas = engine_form(pieces, image_id, family.grid)
    return CallInput(ids, _blobs(pieces), metas)


def _plain_input(pieces: Sequence[Piece], image_id: int) -> CallInput:
    ids: list[int] = []
    for piece in pieces:
        if isinstance(piece, TextPiece):
            ids.extend(piece.ids)
        else:
            ids.extend([*piece.begin, image_id, *piece.end])
    return CallInput(ids, _blobs(pieces))


def _blobs(pieces: Sequence[Piece]) -> list[str]:
    return [piece.blob for piece in pieces if isinstance(piece, VisualItem)]


def kept_ids(
    ids: list[int], text: str, finish_reason: dict[str, Any], tokenizer: SessionTokenizer
) -> list[int]:
    """The generated ids that belong to the transcript: all but the stop and special tokens.

    ``text`` is the worker's text, without the stop. Where a stop string ends inside a token, that
    token is replaced by those of its visible part; its own KV is not cached anyway. Special tokens
    never enter a transcript: an image token from the model would make every later prompt invalid.
    """
    kept = [token for token in ids if token not in tokenizer.special_ids]
    matched = finish_reason.get("matched")
    if isinstance(matched, int):
        return kept[:-1] if kept and kept[-1] == matched else kept
    if not isinstance(matched, str) or matched in text:
        return kept
    whole = tokenizer.decode(kept)
    stop = whole.find(matched)
    if stop < 0:
        return kept
    while kept and len(tokenizer.decode(kept)) > stop:
        kept.pop()
    return kept + tokenizer.encode(whole[len(tokenizer.decode(kept)) : stop])
