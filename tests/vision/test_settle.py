"""What leaves, what stays, and which seals say so, piece by piece."""

from __future__ import annotations

import numpy as np
import pytest

from agentserve.core.item_urls import keep_set
from agentserve.core.plans import Box, Piece, TextPiece, VisualItem
from agentserve.core.screens import Size
from agentserve.vision.settle import covered_mask, settle, thinned, token_mask

SCREEN = Size(width=112, height=56)  # 4 x 2 tokens
GRID = 28


def text(number: int) -> TextPiece:
    return TextPiece(ids=[number], position=number)


def part(name: str, x: int, width: int = 28, **fields) -> VisualItem:
    """A column of the screen, or some of them."""
    size = Size(width=width, height=56)
    box = Box(x=x, y=0, width=size.width, height=size.height)
    return VisualItem(
        blob=name * 64, size=size, tokens=width // 14, turn=0, screen=SCREEN, box=box, base=1,
        position=1, **fields,
    )  # fmt: skip


A, B, C, D = (part(name, 28 * index) for index, name in enumerate("abcd"))
FIRST: list[Piece] = [
    text(0),
    A.model_copy(update={"begin": [7], "position": 0}),
    B,
    C,
    D.model_copy(update={"end": [8]}),
    text(9),
]


def then(*items: VisualItem) -> list[Piece]:
    """The first screen, then one of these parts, then text."""
    first, last = items[0], items[-1]
    marked = [
        item.model_copy(
            update={"begin": [7] if item is first else [], "end": [8] if item is last else []}
        )
        for item in items
    ]
    return [*FIRST, *marked, text(30)]


def sketch(pieces: list[Piece]) -> str:
    """``<`` and ``>`` are markers, ``!`` a seal."""
    row = ""
    for piece in pieces:
        name = piece.blob[0] if isinstance(piece, VisualItem) else "t"
        if isinstance(piece, VisualItem):
            row += "<" * bool(piece.begin) + "!" * bool(piece.seal) + name
            row += "!" * bool(piece.end_seal) + ">" * bool(piece.end)
        else:
            row += "!" * bool(piece.seal) + name
    return row


@pytest.mark.parametrize(
    ("items", "left"),
    [
        ([part("e", 0)], "t<!bcd>t<e>t"),
        ([part("e", 28)], "t<a!cd>t<e>t"),
        ([part("e", 84)], "t<abc!>t<e>t"),
        ([part("e", 0), part("f", 84)], "t<!bc!>t<ef>t"),
        ([part("e", 28), part("f", 56)], "t<a!d>t<ef>t"),
        ([part("e", 56, 56)], "t<ab!>t<e>t"),
        ([part("e", 0, 112)], "t!t<e>t"),
    ],
)
def test_what_newer_parts_cover_leaves(items, left):
    before = then(*items)
    settled = settle(before, GRID)
    assert sketch(settled) == left
    assert settle(settled, GRID) == settled


def test_markers_keep_their_positions():
    settled = settle(then(part("e", 0)), GRID)
    assert settled[1].blob == B.blob
    assert (settled[1].begin, settled[1].position) == ([7], 0)
    assert settled[1].end_position(GRID) == FIRST[1].end_position(GRID)


def test_a_part_that_loses_some_tokens_has_fewer_and_a_seal():
    wide = part("9", 0, 112, begin=[7], end=[8])
    column = np.array([0, 0, 1, 0, 0, 0, 1, 0])
    settled = settle([text(0), wide, text(9), part("e", 56, begin=[7], end=[8]), text(30)], GRID)
    assert sketch(settled) == "t<!9>t<e>t"
    assert settled[1].tokens == 6
    assert settled[1].keep == keep_set(np.flatnonzero(1 - column), 8)
    again = settle([*settled, part("f", 0, begin=[7], end=[8]), text(40)], GRID)
    assert token_mask(again[1], GRID).tolist() == [[False, True, False, True]] * 2
    assert again[1].seal != settled[1].seal
    assert again[2:5] == settled[2:5]


def test_dropped_tokens_of_the_newer_part_cover_nothing():
    keep = keep_set(np.array([0, 4]), 8)
    newer = part("8", 0, 112, keep=keep).model_copy(update={"tokens": 2})
    assert sketch(settle(then(newer), GRID)) == "t<!bcd>t<8>t"


def marks(*rows: str) -> np.ndarray:
    return np.array([[letter == "x" for letter in row] for row in rows])


def bitmap(*rows: str) -> str:
    return keep_set(np.flatnonzero(marks(*rows)), 8)


WIDE = part("9", 0, 112, begin=[7], end=[8])
THIN = thinned(WIDE, marks("x.x.", ".x.x"), GRID)


def test_a_thinned_part_keeps_less_and_covers_the_same():
    assert (THIN.keep, THIN.tokens, THIN.covers) == (
        bitmap("x.x.", ".x.x"),
        4,
        bitmap("xxxx", "xxxx"),
    )
    thinner = thinned(THIN, marks("xxx.", "...."), GRID)
    assert (thinner.keep, thinner.tokens) == (bitmap("x.x.", "...."), 2)
    assert thinner.covers == THIN.covers
    assert thinned(WIDE, marks("xxxx", "xxxx"), GRID) == WIDE


def test_a_thinned_part_supersedes_all_that_it_covers():
    assert sketch(settle(then(THIN), GRID)) == "t!t<9>t"
    assert sketch(settle(then(thinned(part("e", 28, 56), marks("..", ".x"), GRID)), GRID)) == (
        "t<a!d>t<e>t"
    )


def test_a_thinned_part_loses_places_like_tokens():
    """The newer part has the right half, where two of its tokens and two bare places are."""
    (_, left, *_) = settle([text(0), THIN, text(9), *then(part("e", 56, 56))[6:]], GRID)
    assert (left.keep, left.tokens) == (bitmap("x...", ".x.."), 2)
    assert left.covers == bitmap("xx..", "xx..")
    assert left.seal is not None


def test_bare_places_are_lost_without_a_seal():
    """No token left, so the KV of none depends on it."""
    thin = thinned(WIDE, marks("xx..", "xx.."), GRID)
    pieces = settle([text(0), thin, text(9), *then(part("e", 56, 56))[6:]], GRID)
    assert sketch(pieces) == "t<9>t<e>t"
    assert pieces[1] == thin.model_copy(update={"covers": None})
    assert settle(pieces, GRID) == pieces


def test_a_part_without_tokens_is_gone_whatever_it_covers():
    thin = thinned(WIDE, marks("...x", "...."), GRID)
    pieces = settle([text(0), thin, text(9), *then(part("e", 84))[6:]], GRID)
    assert sketch(pieces) == "t!t<e>t"
    # what it took from older parts does not come back
    assert sketch(settle([*then(thin), *then(part("e", 84))[6:]], GRID)) == "t!t!t<e>t"


def test_a_seal_says_nothing_of_bare_places():
    def seals(covers: str | None) -> list:
        thin = THIN.model_copy(update={"covers": covers})
        pieces = settle([text(0), thin, text(9), *then(part("e", 84))[6:]], GRID)
        return [piece.seal for piece in pieces]

    assert seals(None) == seals(THIN.covers) == seals(bitmap("xxxx", ".xxx"))


def test_covers_is_what_is_kept_unless_said():
    assert covered_mask(WIDE, GRID).all()
    kept = THIN.model_copy(update={"covers": None})
    assert np.array_equal(covered_mask(kept, GRID), token_mask(kept, GRID))


def test_ordinary_pictures_are_nobodys_part():
    picture = VisualItem(blob="f" * 64, size=SCREEN, tokens=8, turn=0, begin=[7], end=[8])
    pieces = [picture, *then(part("e", 0)), picture]
    settled = settle(pieces, GRID)
    assert settled[0] == settled[-1] == picture


def test_a_seal_says_all_that_came_before_and_nothing_else():
    def seal(pieces: list[Piece]) -> str:
        (found,) = [piece.seal for piece in settle(pieces, GRID) if piece.seal]
        return found.history

    same = seal(then(part("e", 28)))
    assert seal(then(part("7", 28))) == same  # what superseded comes later in the prompt
    earlier = then(part("e", 28))
    earlier[0] = text(5)
    assert seal(earlier) != same
    gone = then(part("e", 28))
    gone[2] = part("7", 28)
    assert seal(gone) != same
    words = then(part("e", 28))
    words[0] = words[0].model_copy(update={"text": "for people"})
    words[1] = words[1].model_copy(update={"shared": True})
    assert seal(words) == same


def test_seals_chain():
    one = settle([*settle(then(part("e", 28)), GRID), part("f", 0, begin=[7], end=[8])], GRID)
    other = then(part("e", 28))
    other[2] = part("7", 28)
    two = settle([*settle(other, GRID), part("f", 0, begin=[7], end=[8])], GRID)
    # the b of one and the 7 of the other are long gone, what was computed behind them is not
    assert sketch(one) == sketch(two) == "t<!cd>t<e>t<f>"
    assert one[1].seal != two[1].seal
    assert [piece for piece in one if not piece.seal] == [piece for piece in two if not piece.seal]
