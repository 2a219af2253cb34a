"""What is to leave the cache once a prompt is answered, worked out from the request. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from agentserve.core.errors import InvalidRequest
from agentserve.core.item_urls import After, ItemAfter, kept_tokens
from agentserve.core.plans import Seal, Selection
from agentserve.core.pruning import Compression
from agentserve.engine.items.identity import item_identity, text_identity
from agentserve.engine.items.layout import Layout, Picture, Span, lay_out

KEY = "agentserve-after"

_Named = dict[int, tuple[int, bytes | None]]
"""First token -> (one behind the last, identity) of all that has one of its own."""

Identify = Callable[[int, Picture, Span], bytes | None]
"""Index of a picture as sent, itself, its place -> its identity; None for an ordinary image."""
ContentOf = Callable[[int], str]
"""Index of a picture as sent -> what its identity calls its pixels."""


@dataclass(frozen=True)
class Sealed:
    """Tokens of what is left that have an identity which they did not have in the prompt."""

    start: int
    """Counted in what is left of the prompt."""
    end: int
    identity: bytes


@dataclass(frozen=True)
class Open:
    """An item of which the engine chooses what stays."""

    start: int
    """Its first token in the prompt."""
    tokens: tuple[int, ...]
    """Which of its tokens may stay, ascending, counted from ``start``."""
    raster: tuple[int, ...]
    """What these are in the item's own raster."""
    content: str
    screen: tuple[int, int]
    box: tuple[int, int, int, int]
    base: int
    time: int
    history: str
    """The seal that it gets. See Picture and Span for the others."""
    selection: str | None = None
    """JSON of the picture's."""

    def identity(self, chosen: np.ndarray) -> bytes:
        """Of what is left when the tokens ``chosen`` (indices into ``tokens``) stay."""
        kept = np.asarray(self.raster)[chosen]
        if len(kept) == self.box[2] * self.box[3]:
            kept = None
        picture = Picture(
            self.screen,
            self.box,
            kept,
            seal=Seal(history=self.history),
            selection=self.selection and Selection.model_validate_json(self.selection),
        )
        place = Span(self.start, self.start + len(chosen), self.base, self.time, ordinary=False)
        return item_identity(self.content, picture, place)


@dataclass(frozen=True)
class Change:
    """What becomes of a laid-out prompt."""

    owner: str
    length: int
    """Tokens of the prompt."""
    kept: bytes
    """Bitmap over them, the first token the highest bit of the first byte."""
    sealed: tuple[Sealed, ...]
    """In order."""
    forked: bool = False
    """Whether another owner continues what the prompt found in the cache."""
    open: tuple[Open, ...] = ()
    """In order; ``kept`` and ``sealed`` have all of their tokens until they are ``chosen``."""
    compression: Compression = Compression()
    """How they are chosen from: a pruning inside the model, an eviction."""

    @property
    def rows(self) -> np.ndarray:
        """Which tokens stay, int64, ascending."""
        bits = np.unpackbits(np.frombuffer(self.kept, np.uint8), count=self.length)
        return np.flatnonzero(bits)

    @property
    def first(self) -> int | None:
        """The first token that leaves or gets another key; None when there is none."""
        rows = self.rows
        gaps = np.flatnonzero(rows != np.arange(len(rows)))
        at = [int(gaps[0])] if len(gaps) else []
        at += [int(rows[span.start]) for span in self.sealed[:1]]
        return min(at, default=None)

    def chosen(self, kept: Sequence[np.ndarray]) -> Change:
        """The change when of each open item the tokens ``kept`` stay, ascending indices into its
        ``tokens``, at least one."""
        stays = np.zeros(self.length, bool)
        before = self.rows
        stays[before] = True
        identities = {}
        for item, chosen in zip(self.open, kept, strict=True):
            tokens = item.start + np.asarray(item.tokens)
            stays[tokens] = False
            stays[tokens[chosen]] = True
            identities[item.start + item.tokens[chosen[0]]] = item.identity(chosen)
        rows = np.flatnonzero(stays)
        sealed = []
        for span in self.sealed:
            tokens = before[span.start : span.end]
            left = np.searchsorted(rows, tokens[stays[tokens]])
            identity = identities.get(int(rows[left[0]]), span.identity)
            sealed.append(Sealed(int(left[0]), int(left[-1]) + 1, identity))
        bits = np.packbits(stays).tobytes()
        return replace(self, kept=bits, sealed=tuple(sealed), open=())

    def with_tokens(self, chosen: dict[int, np.ndarray]) -> Change:
        """The change when the item whose first token in the prompt is a key of ``chosen`` turns
        out to be of other tokens of its picture, as many: ascending indices in its raster."""
        return replace(
            self,
            open=tuple(
                replace(item, raster=tuple(chosen[item.start].tolist()))
                if item.start in chosen
                else item
                for item in self.open
            ),
        )

    def pack(self) -> dict[str, Any]:
        """Plain values for an item's ``model_specific_data``."""
        packed = asdict(replace(self, compression=None))
        return {KEY: packed | {"compression": self.compression.model_dump_json()}}


def change_of(item: Any) -> Change | None:
    """What SGLang's MultimodalDataItem carries of it."""
    packed = item.model_specific_data.get(KEY)
    if packed is None:
        return None
    return Change(
        **packed
        | {
            "sealed": tuple(Sealed(**span) for span in packed["sealed"]),
            # tuples come out of the transport as lists
            "open": tuple(
                Open(**{name: _tuple(value) for name, value in item.items()})
                for item in packed["open"]
            ),
            "compression": Compression.model_validate_json(packed["compression"]),
        }
    )


def _tuple(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


def plan_change(
    after: After,
    ids: Sequence[int],
    image_token: int,
    pictures: Sequence[Picture],
    layout: Layout,
    identify: Identify,
    content: ContentOf,
) -> Change:
    """``layout`` is that of ``ids`` with ``pictures``, whose identities ``identify`` tells.

    What is left is laid out like a prompt of its own, so that a later prompt which begins with it
    gets the same identities. Raises InvalidRequest when it does not fit the prompt, or would have
    KV that its identities do not tell of.
    """
    stays = np.zeros(len(ids), bool)
    stays[kept_tokens(after.kept, len(ids))] = True
    places = [index for index, token in enumerate(ids) if token == image_token]
    staying = [i for i, place in enumerate(places) if stays[place]]
    if len(staying) != len(after.items):
        raise InvalidRequest(f"{len(staying)} pictures stay, {len(after.items)} are described")
    left = [
        _smaller(pictures[i], layout.spans[i], item)
        for i, item in zip(staying, after.items, strict=True)
    ]
    compacted = lay_out([ids[i] for i in np.flatnonzero(stays)], image_token, left, after.texts)
    rows = _rows(stays, places, pictures, dict(zip(staying, left, strict=True)))
    _check_rows(rows, len(layout.ids))
    if any(item.chosen for item in after.items) and ids[-1] == image_token:
        raise InvalidRequest("text follows the items to choose from: it says what stays of them")
    _check_positions(layout.positions[:, rows], compacted.positions)
    before = _named(layout, list(range(len(pictures))), pictures, identify)
    behind = _named(compacted, staying, left, identify)
    sealed = _sealed(before, behind, rows)
    _check_seals(sealed, _with_seal(compacted, left))
    _check_gaps(sealed, before, rows)
    _check_names(before, behind, rows)
    kept = np.zeros(len(layout.ids), np.uint8)
    kept[rows] = 1
    bits = np.packbits(kept).tobytes()
    chosen = [i for i, item in zip(staying, after.items, strict=True) if item.chosen]
    smaller = dict(zip(staying, left, strict=True))
    return Change(
        owner=after.owner,
        length=len(layout.ids),
        kept=bits,
        sealed=tuple(sealed),
        forked=after.forked,
        open=tuple(_open(pictures[i], smaller[i], layout.spans[i], content(i)) for i in chosen),
        compression=Compression(pruning=after.pruning, eviction=after.eviction),
    )


def _open(picture: Picture, smaller: Picture, span: Span, content: str) -> Open:
    """``smaller``: the picture as it stays if all that may stay does."""
    if smaller.seal is None:
        raise InvalidRequest("an item to choose from has no seal for what is left of it")
    every = np.arange(picture.box[2] * picture.box[3])
    present = every if picture.kept is None else picture.kept
    stays = every if smaller.kept is None else smaller.kept
    return Open(
        start=span.start,
        tokens=tuple(np.searchsorted(present, stays).tolist()),
        raster=tuple(stays.tolist()),
        content=content,
        screen=picture.screen,
        box=picture.box,
        base=span.base,
        time=span.time,
        history=smaller.seal.history,
        selection=picture.selection and picture.selection.model_dump_json(),
    )


def _smaller(picture: Picture, span: Span, after: ItemAfter) -> Picture:
    """The picture as it stays, where it was."""
    place = {"base": span.base, "time": span.time}
    if not picture.item:
        if after != ItemAfter():
            raise InvalidRequest("an ordinary picture stays as it is, or goes")
        return replace(picture, **place)
    tokens = picture.box[2] * picture.box[3]
    if picture.selection is not None and not picture.selection.done:
        # what is chosen stays, whatever it will be
        return replace(picture, seal=after.seal, **place)
    kept = None if after.keep is None else kept_tokens(after.keep, tokens)
    if kept is not None and len(kept) == tokens:
        kept = None
    if (
        picture.kept is not None
        and not np.isin(np.arange(tokens) if kept is None else kept, picture.kept).all()
    ):
        raise InvalidRequest("a keep set after the answer has tokens that the prompt has not")
    return replace(picture, kept=kept, seal=after.seal, **place)


def _rows(
    stays: np.ndarray, places: Sequence[int], pictures: Sequence[Picture], left: dict[int, Picture]
) -> np.ndarray:
    """Which tokens of the layout stay; ``left`` are the pictures that do, by index."""
    counts = np.ones(len(stays), np.int64)
    counts[list(places)] = [picture.tokens for picture in pictures]
    starts = np.cumsum(counts) - counts
    rows = np.repeat(stays, counts)
    for i, picture in left.items():
        if picture.kept is not None:
            present = pictures[i].kept
            if present is None:
                present = np.arange(pictures[i].tokens)
            start = starts[places[i]]
            rows[start : start + len(present)] = np.isin(present, picture.kept)
    return np.flatnonzero(rows)


def _named(
    layout: Layout, indices: Sequence[int], pictures: Sequence[Picture], identify: Identify
) -> _Named:
    found: _Named = {
        span.start: (span.end, identify(i, picture, span))
        for i, picture, span in zip(indices, pictures, layout.spans, strict=True)
    }
    return found | {text.index: (text.index + 1, text_identity(text)) for text in layout.sealed}


def _sealed(before: _Named, behind: _Named, rows: np.ndarray) -> list[Sealed]:
    """What has another identity than in the prompt."""
    at = {row: identity for start, (end, identity) in before.items() for row in range(start, end)}
    changed = []
    for start, (end, identity) in sorted(behind.items()):
        row = int(rows[start])
        if row in at and at[row] == identity:
            continue
        if identity is None:
            raise InvalidRequest("an ordinary picture stays as it is, or goes")
        changed.append(Sealed(start, end, identity))
    return changed


def _with_seal(layout: Layout, pictures: Sequence[Picture]) -> set[int]:
    """The first token of everything that has a seal."""
    texts = {text.index for text in layout.sealed if text.seal is not None}
    spans = zip(layout.spans, pictures, strict=True)
    return texts | {span.start for span, picture in spans if picture.seal is not None}


def _check_rows(rows: np.ndarray, length: int) -> None:
    if not len(rows) or rows[-1] != length - 1:
        raise InvalidRequest("the prompt's last token stays: the answer's KV has no seal")


def _check_positions(before: np.ndarray, behind: np.ndarray) -> None:
    moved = np.flatnonzero((before != behind).any(axis=0))
    if len(moved):
        at = int(moved[0])
        raise InvalidRequest(
            f"token {at} of what is left would move from {before[:, at].tolist()} to"
            f" {behind[:, at].tolist()}",
            hint="anchor the text behind what leaves where it lay",
        )


def _check_seals(sealed: Sequence[Sealed], with_seal: set[int]) -> None:
    for span in sealed:
        if span.start not in with_seal:
            raise InvalidRequest(
                f"token {span.start} of what is left has another identity than in the prompt, and"
                " no seal"
            )


def _check_gaps(sealed: Sequence[Sealed], before: _Named, rows: np.ndarray) -> None:
    """What leaves is told of by the next token's new seal; an item's tail by the item's own."""
    new = np.zeros(len(rows), bool)
    for span in sealed:
        new[span.start : span.end] = True
    ends = {row: end for start, (end, _) in before.items() for row in range(start, end)}
    for at in np.flatnonzero(np.diff(rows, prepend=-1) > 1).tolist():
        tail = at > 0 and ends.get(int(rows[at - 1]), 0) >= rows[at]
        if not new[at] and not tail:
            raise InvalidRequest(
                f"token {at} of what is left follows what leaves, and has no new seal"
            )


def _check_names(before: _Named, behind: _Named, rows: np.ndarray) -> None:
    """Nothing that stays loses its identity and becomes plain text."""
    named = {int(rows[start]) for start in behind}
    first = np.searchsorted(rows, list(before))
    for i, (start, (end, _)) in zip(first.tolist(), before.items(), strict=True):
        if i < len(rows) and rows[i] < end and int(rows[i]) not in named:
            raise InvalidRequest(f"token {start} of the prompt would lose its place or its seal")
