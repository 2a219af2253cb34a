from __future__ import annotations

from dataclasses import replace
from itertools import islice

import numpy as np
import pytest

from agentserve.core.errors import InvalidRequest
from agentserve.core.plans import TextPiece, VisualItem, num_tokens
from agentserve.vision.cells import cut, identity
from agentserve.vision.layouts import Layout, StaticCell
from agentserve.vision.mosaic import Held, Limits, MosaicSettings, plan_mosaic
from agentserve.vision.settle import coverage, is_part, settle
from vision.mosaic_rig import (
    CELL,
    GRID,
    SIZE,
    WIDE,
    Session,
    live_pixels,
    page,
    screens,
    tokens,
    touched,
)

TOKENS = 35


def session(positions="turn", context="cell", **options) -> Session:
    settings = MosaicSettings(grid=GRID, positions=positions, context=context)
    return Session(settings, cell=CELL, **options)


def boxes(items: list[VisualItem]) -> list[tuple[int, int, int, int]]:
    return [(i.box.x, i.box.y, i.box.width, i.box.height) for i in items]


@pytest.mark.parametrize("context", ["cell", "region", "screen"])
@pytest.mark.parametrize("positions", ["turn", "session"])
@pytest.mark.parametrize("seed", range(3))
def test_each_prompt_extends_the_last_and_the_screen_is_live_once(seed, positions, context):
    random = np.random.default_rng(seed)
    limits = replace(WIDE, turns=int(random.integers(4, 9)))
    played = session(positions, context, limits=limits)
    held: list[tuple] = []
    moves = 0
    for pixels in islice(screens(random, SIZE, GRID), 16):
        planned, prompt = played.play(pixels, show=bool(random.integers(8)))
        prior = tokens(planned.plan.prior, GRID)
        if planned.plan.move is None:
            assert prior == held
        else:
            moves += 1
        whole = tokens(prompt, GRID)
        assert whole[: len(prior)] == prior
        held = tokens(list(played.held.pieces), GRID)
        gone = _removed(whole, held)
        declared = {planned.plan.prior[index].blob for index in planned.plan.superseded}
        assert {token[0] for token in gone if isinstance(token[0], str)} <= declared
        if played.held.parts:
            assert (coverage(played.held.parts, GRID) == 1).all()
            live = live_pixels(list(played.held.pieces), played.blobs, GRID)
            assert np.array_equal(live, played.held.shown.pixels)
            assert sum(item.tokens for item in played.held.parts) == TOKENS
    assert moves == (16 - 1) // limits.turns
    assert settle(played.held.pieces, GRID) == played.held.pieces


def _removed(before: list[tuple], after: list[tuple]) -> list[tuple]:
    """What must be deleted from one row of tokens to get the other; fails when that is not all."""
    rest = iter(after)
    wanted = next(rest, None)
    gone = []
    for token in before:
        if token == wanted:
            wanted = next(rest, None)
        else:
            gone.append(token)
    assert wanted is None
    return gone


@pytest.mark.parametrize("positions", ["turn", "session"])
def test_positions_only_grow_along_the_text(positions):
    played = session(positions)
    for pixels in islice(screens(np.random.default_rng(9), SIZE, GRID), 12):
        _, prompt = played.play(pixels)
        text = [token[1] for token in tokens(prompt, GRID) if isinstance(token[0], int)]
        assert text == sorted(set(text))


def test_positions_by_turn_are_those_of_an_ordinary_picture():
    played = session("turn")
    played.play(page())
    _, prompt = played.play(touched(page(), (190, 130)))
    screen = [piece for piece in prompt if is_part(piece) and piece.turn == 1]
    before = prompt[prompt.index(screen[0]) - 1]
    behind = prompt[prompt.index(screen[-1]) + 1]
    marker = before.position + len(before.ids)
    assert (screen[0].position, screen[0].base, screen[0].time) == (marker, marker + 1, None)
    assert screen[-1].end_position(GRID) == marker + 1 + 7  # the longer side of the whole screen
    assert behind.position == marker + 1 + 7 + 1


def test_positions_by_session_stay_and_time_counts_turns():
    played = session("session")
    _, first = played.play(page())
    base = next(piece.base for piece in first if is_part(piece))
    played.play(page())
    _, third = played.play(touched(page(), (0, 0)))
    (item,) = [piece for piece in third if is_part(piece) and piece.turn == 2]
    assert (item.base, item.time) == (base, base + 2)
    assert item.end_position(GRID) == item.position + 1  # the screen takes no text positions


def test_only_changed_cells_are_sent():
    played = session()
    first, _ = played.play(page())
    assert first.key and len(first.plan.screen) == 12
    second, _ = played.play(touched(page(), (60, 10), (195, 139)))
    assert boxes(second.plan.screen) == [(56, 0, 56, 56), (168, 112, 28, 28)]
    assert [item.tokens for item in second.plan.screen] == [4, 1]
    assert len(second.plan.superseded) == 2 and not second.key
    assert len(second.pictures) == 2


def test_a_screen_without_change_sends_nothing():
    played = session()
    played.play(page())
    planned, _ = played.play(page())
    assert (planned.plan.screen, planned.plan.superseded, planned.pictures) == ([], [], {})
    assert planned.plan.mosaic


def test_a_new_page_is_a_key_screen_in_place():
    played = session()
    played.play(page())
    planned, prompt = played.play(page(1))
    assert planned.key and planned.plan.move is None
    assert len(planned.plan.superseded) == 12
    held = played.held.pieces
    assert {item.turn for item in played.held.parts} == {1}
    # the old screen's markers went with it, its text stayed
    assert num_tokens(list(held)) == num_tokens(prompt) - TOKENS - 2
    assert [piece.ids for piece in held if isinstance(piece, TextPiece)] == [
        piece.ids for piece in prompt if isinstance(piece, TextPiece)
    ]


def test_what_nearly_fills_the_screen_is_sent_whole():
    played = session()
    played.play(page())
    pixels = page(1)
    pixels[112:, 168:] = page()[112:, 168:]  # one token of 35 is as before
    assert len(played.plan(pixels).plan.screen) == 12


def test_a_screen_that_was_not_shown_supersedes_nothing():
    played = session()
    played.play(page())
    before = played.held.parts
    hidden = touched(page(), (0, 0))
    planned, _ = played.play(hidden, show=False)
    assert planned.plan.superseded
    assert played.held.parts == before
    # and it is sent with the next one
    assert boxes(played.plan(touched(hidden, (60, 0))).plan.screen) == [
        (0, 0, 56, 56),
        (56, 0, 56, 56),
    ]


def test_context_region_sends_neighbours_as_one():
    played = session(context="region")
    first, _ = played.play(page())
    assert boxes(first.plan.screen) == [(0, 0, 196, 140)]
    second, _ = played.play(touched(page(), (10, 10), (60, 10), (10, 120)))
    assert boxes(second.plan.screen) == [(0, 0, 112, 56), (0, 112, 56, 28)]
    old = played.held.parts[0]
    assert (old.turn, old.tokens) == (0, TOKENS - 8 - 2)
    assert old.seal is not None


def test_context_screen_sends_the_whole_picture_and_keeps_the_changed():
    played = session(context="screen")
    played.play(page())
    planned, _ = played.play(touched(page(), (10, 10)))
    (item,) = planned.plan.screen
    assert boxes([item]) == [(0, 0, 196, 140)]
    assert item.tokens == 4 and item.keep is not None


@pytest.mark.parametrize(
    ("limits", "reason"),
    [
        (Limits(tokens=10_000, positions=10_000, turns=2), "turns"),
        (Limits(tokens=10_000, positions=3 * (7 + 2 + 5) - 3), "positions"),
        (Limits(tokens=TOKENS + 2 + 2 * 5 + 4, positions=10_000), "context"),
    ],
)
def test_at_a_limit_the_prompt_begins_anew_and_says_why(limits, reason):
    played = session(limits=limits)
    planned, _ = played.play(page())
    while planned.plan.move is None:
        assert played.turn < 4
        planned, prompt = played.play(touched(page(), (played.turn, 0)))
    plan = planned.plan
    assert plan.move == reason
    assert planned.key and plan.superseded == []
    assert all(isinstance(piece, TextPiece) and piece.seal is None for piece in plan.prior)
    assert plan.prior[0].position == 0
    assert [p.position for p in plan.prior[1:]] == list(
        np.cumsum([len(p.ids) for p in plan.prior])[:-1]
    )
    assert played.held.since == played.turn - 1


def test_what_does_not_fit_even_then_is_refused():
    played = session(limits=Limits(tokens=TOKENS + 1, positions=10_000))
    with pytest.raises(InvalidRequest, match="does not fit: 0 tokens of text and 35"):
        played.plan(page())


def layout_of(pixels: np.ndarray, *cells: int) -> Layout:
    identities = cut(pixels, CELL).identities
    found = [StaticCell(cell=cell, identity=identities[cell]) for cell in cells]
    return Layout(version=3, cells=found)


def test_the_first_screen_begins_with_the_layouts_cells():
    layout = layout_of(page(), 7, 2, 5)
    pixels = touched(page(), (120, 10))  # in cell 2
    planned = session(layout=layout).plan(pixels)
    items = planned.plan.screen
    assert boxes(items)[:2] == [(168, 56, 28, 56), (56, 56, 56, 56)]
    assert [item.shared for item in items] == [True] * 2 + [False] * 10
    assert boxes(items)[2:] == sorted(boxes(items)[2:], key=lambda box: (box[1], box[0]))


def test_sessions_of_one_layout_share_their_first_parts():
    layout = layout_of(page(), 0, 1, 2, 3)
    one = session(layout=layout).plan(touched(page(), (0, 130)))
    two = session(layout=layout).plan(touched(page(), (60, 130)))
    same = [a == b for a, b in zip(one.plan.screen, two.plan.screen, strict=True)]
    assert same.index(False) >= 4


def test_later_key_screens_need_no_layout():
    played = session(layout=layout_of(page(1), 5))
    played.play(page())
    planned = played.plan(page(1))
    assert planned.key and not any(item.shared for item in planned.plan.screen)
    assert boxes(planned.plan.screen)[0] == (0, 0, 56, 56)


def test_areas_of_the_layout_are_whole_or_not_static():
    layout = layout_of(page(), 0, 1, 4, 5, 3)
    planned = session(context="region", layout=layout).plan(page())
    assert boxes(planned.plan.screen)[:2] == [(0, 0, 112, 112), (168, 0, 28, 56)]
    assert [item.shared for item in planned.plan.screen][:3] == [True, True, False]
    other = session(context="region", layout=layout).plan(touched(page(), (0, 0)))
    assert [box for box, item in zip(boxes(other.plan.screen), other.plan.screen, strict=True)
            if item.shared] == [(168, 0, 28, 56)]  # fmt: skip


@pytest.mark.parametrize(("rows", "reused"), [(28, 4), (56, 4), (30, 0)])
def test_scrolled_cells_keep_their_pictures(rows, reused):
    played = session()
    played.play(page())
    sent = set(played.blobs)
    scrolled = page(1)
    scrolled[:-rows, :112] = page()[rows:, :112]  # two columns of cells, up
    scrolled[:, 112:] = page()[:, 112:]
    planned, _ = played.play(scrolled)
    moved = [item for item in planned.plan.screen if item.blob in sent]
    assert len(moved) == reused
    for item in moved:
        box = item.box
        area = scrolled[box.y : box.y + box.height, box.x : box.x + box.width]
        assert identity(area) == identity(played.blobs[item.blob])
        assert item.blob not in planned.pictures
    assert sum(item.tokens for item in planned.plan.screen) == 20  # no more than without


def test_seals_tell_histories_apart_and_only_those():
    def third(first: int, second: int, shared: int) -> list:
        played = session()
        played.play(touched(page(), (0, 0)) if first else page())
        played.play(touched(page(), (0, 0), (1, 1)) if second else touched(page(), (2, 2)))
        played.play(touched(page(), (3, 3)) if shared else touched(page(), (4, 4)))
        return list(played.held.pieces)

    def keys(pieces: list) -> list:
        return [piece.model_dump(exclude={"text"}) for piece in pieces]

    assert keys(third(0, 0, 0)) == keys(third(0, 0, 0))
    # the same live screen, reached over another one
    one, two = third(0, 0, 0), third(0, 1, 0)
    assert tokens(one, GRID) == tokens(two, GRID)
    assert keys(one) != keys(two)
    seal = next(index for index, piece in enumerate(one) if piece.seal)
    assert keys(one)[:seal] == keys(two)[:seal]


def test_markers_leave_with_the_last_part_of_their_screen():
    played = session()
    played.play(page())
    corners = [(0, 0), (60, 0), (195, 139)]
    played.play(touched(page(), *corners))
    gone = touched(page(), (1, 1), (60, 0), (190, 130))  # the first and the last of the second
    _, prompt = played.play(gone)
    second = [item for item in played.held.parts if item.turn == 1]
    assert [(item.begin, item.end) for item in second] == [([1], [2])]
    assert second[0].seal and second[0].end_seal
    rows = tokens(prompt, GRID)
    assert all(token in rows for token in tokens(second, GRID))
    played.play(touched(gone, (61, 0)))
    assert not [item for item in played.held.parts if item.turn == 1]
    markers = [i for piece in played.held.parts for i in piece.begin + piece.end]
    assert markers == [1, 2] * 3


@pytest.mark.parametrize("context", ["cell", "region", "screen"])
def test_a_picture_of_the_whole_screen_is_not_made_again(context):
    settings = MosaicSettings(grid=GRID, positions="turn", context=context)
    screen = cut(page(7), CELL)
    picture = "a" * 64
    made = plan_mosaic(settings, Held(), screen, 0, WIDE)
    pictured = plan_mosaic(settings, Held(), screen, 0, WIDE, picture=picture)
    if context == "cell":  # each is sent on its own
        assert pictured == made
        return
    (item,) = made.plan.screen
    assert pictured.plan.screen == [item.model_copy(update={"blob": picture})]
    assert (len(made.pictures), pictured.pictures) == (1, {})
