"""Thinned regions, thin cells, and when these are sent again."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from itertools import islice

import numpy as np
import pytest

from agentserve.core.item_urls import keep_set
from agentserve.core.plans import VisualItem
from agentserve.core.pruning import METHODS, Compression, Eviction, Pruning, kept_count
from agentserve.vision.cells import changed_cells, cut
from agentserve.vision.layouts import Layout, StaticCell
from agentserve.vision.mosaic import Held, Limits, MosaicPlan, MosaicSettings
from agentserve.vision.pruning import View, choose
from agentserve.vision.regions import on_tokens
from agentserve.vision.settle import (
    coverage,
    covered_mask,
    live_tokens,
    place_of,
    settle,
    thinned,
    token_mask,
)
from agentserve.vision.thinning import Wishes, thin_cells, wanted_again

from .mosaic_rig import (
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

METHODS_ON_PIXELS = [name for name, method in METHODS.items() if method.where == "pixels"]
HALF = Pruning(method="uniform")


def session(context="cell", positions="turn", **options) -> Session:
    settings = MosaicSettings(grid=GRID, positions=positions, context=context)
    return Session(settings, cell=CELL, **options)


def corners(items: list[VisualItem]) -> list[tuple[int, int]]:
    return [(item.box.x, item.box.y) for item in items]


def evict(played: Session, *stays: tuple[int, int, np.ndarray]) -> None:
    """What an engine does after an answer: of the part at (x, y) only some tokens stay."""
    pieces = list(played.held.pieces)
    for x, y, mask in stays:
        (index,) = [i for i, piece in enumerate(pieces)
                    if isinstance(piece, VisualItem) and corners([piece]) == [(x, y)]]  # fmt: skip
        pieces[index] = thinned(pieces[index], mask, GRID)
    played.held = replace(played.held, pieces=pieces)


FIRST = np.array([[1, 0], [0, 0]], bool)


@dataclass
class Places:
    """Who stands for each place of the screen and where tokens are, kept by the simplest rules."""

    owner: np.ndarray = field(default_factory=lambda: np.full((5, 7), -1))
    alive: np.ndarray = field(default_factory=lambda: np.zeros((5, 7), bool))
    items: int = 0

    def show(self, items: list[VisualItem]) -> None:
        for item in items:
            for row, column in np.argwhere(covered_mask(item, GRID)):
                kept = token_mask(item, GRID)[row, column]
                place = row + item.box.y // GRID, column + item.box.x // GRID
                self.owner[place], self.alive[place] = self.items, kept
            self.items += 1
        self.bury()

    def bury(self) -> None:
        """Items without a token are gone."""
        for owner in set(self.owner.flat):
            if not self.alive[self.owner == owner].any():
                self.owner[self.owner == owner] = -1


def cells_of(mask: np.ndarray) -> np.ndarray:
    """Any, by cell."""
    rows, columns = np.arange(0, 5, 2), np.arange(0, 7, 2)
    return np.logical_or.reduceat(np.logical_or.reduceat(mask, rows, 0), columns, 1)


def random_eviction(random: np.random.Generator, played: Session, places: Places) -> None:
    pieces = list(played.held.pieces)
    for index, item in enumerate(pieces):
        if isinstance(item, VisualItem) and random.random() < 0.2:
            mask = token_mask(item, GRID)
            stays = mask & (random.random(mask.shape) < 0.6)
            stays.flat[np.flatnonzero(mask)[random.integers(item.tokens)]] = True
            pieces[index] = thinned(item, stays, GRID)
            places.alive[place_of(item, GRID)][mask & ~stays] = False
    played.held = replace(played.held, pieces=pieces)


@pytest.mark.parametrize("context", ["cell", "region", "screen"])
@pytest.mark.parametrize("method", [*METHODS_ON_PIXELS, None])
def test_random_sessions(method, context):
    assert sum(play_randomly(seed, method, context) for seed in range(6)) > 0


def play_randomly(seed: int, method: str | None, context: str) -> int:
    """A session that is thinned when it is sent and evicted from in between, against ``Places``.
    Returns how many cells were sent again."""
    random = np.random.default_rng(seed)
    positions = ["turn", "session"][seed % 2]
    played = session(context, positions, limits=replace(WIDE, turns=int(random.integers(5, 9))))
    pruning = method and Pruning(method=method, ratio=float(random.choice([0.3, 0.5, 0.9])))
    places = Places()
    resent = 0
    for pixels in islice(screens(random, SIZE, GRID), 16):
        x, y = (int(random.integers(0, side)) for side in reversed(SIZE))
        aimed = [(x, y)] if random.integers(2) else []
        played.wishes = Wishes(Compression(pruning=pruning), bool(random.integers(5) == 0), aimed)
        before = played.held
        shown = bool(random.integers(8))
        planned, prompt = played.play(pixels, show=shown)

        resent += check_screen(played, planned, before, places)
        prior = tokens(planned.plan.prior, GRID)
        assert tokens(prompt, GRID)[: len(prior)] == prior
        if planned.plan.move is None:
            assert prior == tokens(list(before.pieces), GRID)
        else:
            places = Places()
        if shown:
            places.show(planned.plan.screen)
        check_held(played, places)
        random_eviction(random, played, places)
    return resent


def check_screen(played: Session, planned: MosaicPlan, before: Held, places: Places) -> int:
    """That what changed is sent, and what is thin and wanted, the latter in full."""
    plan, wishes = planned.plan, played.wishes
    for item in plan.screen:
        assert item.tokens == token_mask(item, GRID).sum() >= 1
        assert not (token_mask(item, GRID) & ~covered_mask(item, GRID)).any()
    marked = np.ones((3, 4), bool)
    again = np.zeros((3, 4), bool)
    if not planned.key:
        wanted = np.full((3, 4), wishes.resend_thin)
        for x, y in wishes.aimed:
            wanted[y // CELL, x // CELL] = True
        again = wanted & cells_of(~places.alive)
        marked = changed_cells(before.shown.pixels, played.last.pixels, CELL) | again
    sent = coverage(plan.screen, GRID) if plan.screen else np.zeros((5, 7), int)
    assert np.array_equal(sent, on_tokens(marked, played.last, GRID))
    full = np.zeros((5, 7), bool)
    for index in planned.in_full:
        item = plan.screen[index]
        full[place_of(item, GRID)] |= token_mask(item, GRID)
        assert item.covers is None
    assert np.array_equal(full, on_tokens(again, played.last, GRID))
    return int(again.sum())


def check_held(played: Session, places: Places) -> None:
    """That no place has two parts, the right ones have one, and these show what was shown."""
    assert settle(played.held.pieces, GRID) == played.held.pieces
    parts = played.held.parts
    if parts:
        assert np.array_equal(coverage(parts, GRID), places.owner >= 0)
        assert np.array_equal(live_tokens(parts, GRID), places.alive)
        there = (places.owner >= 0).repeat(GRID, 0).repeat(GRID, 1)
        live = live_pixels(parts, played.blobs, GRID)
        assert np.array_equal(live[there], played.held.shown.pixels[there])


def test_a_thinned_screen_stands_for_all_of_it():
    played = session(wishes=Wishes(Compression(pruning=HALF)))
    planned, _ = played.play(page())
    assert [item.tokens for item in planned.plan.screen] == [2, 2, 2, 1, 2, 2, 2, 1, 1, 1, 1, 1]
    one = planned.plan.screen[-1]
    assert (one.keep, one.covers) == (None, None)  # its only token
    assert (coverage(played.held.parts, GRID) == 1).all()
    assert played.plan(page()).plan.screen == []


LAYOUT = Layout(
    version=1,
    cells=[StaticCell(cell=c, identity=cut(page(), CELL).identities[c]) for c in (0, 5)],
)


@pytest.mark.parametrize("name", [n for n, m in METHODS.items() if m.where == "features"])
def test_what_is_chosen_behind_the_encoder_is_marked_and_counted(name):
    asked = Compression(pruning=Pruning(method=name))
    plan = session(wishes=Wishes(asked)).plan(page()).plan
    for item, bare in zip(plan.screen, session().plan(page()).plan.screen, strict=True):
        assert item.tokens == kept_count(asked.pruning, bare.tokens)
        assert item.selection.sent == bare.keep and not item.selection.done
        assert np.array_equal(covered_mask(item, GRID), covered_mask(bare, GRID))
        undone = {"selection": None, "tokens": bare.tokens, "covers": None}
        assert item.model_copy(update=undone) == bare
        chosen = item.model_copy(update={"keep": keep_set(np.array([0]), bare.tokens), "tokens": 1})
        assert np.array_equal(covered_mask(chosen, GRID), covered_mask(bare, GRID))


@pytest.mark.parametrize(
    "asked",
    [
        *(
            Compression(pruning=Pruning(method=n))
            for n, m in METHODS.items()
            if m.where == "inside"
        ),
        Compression(eviction=Eviction(method="vtw")),
    ],
    ids=str,
)
def test_what_the_engine_is_to_choose_from_is_marked(asked):
    plan = session(wishes=Wishes(asked)).plan(page()).plan
    assert all(item.thinning and item.thinning.keep is None for item in plan.screen)
    bare = [item.model_copy(update={"thinning": None}) for item in plan.screen]
    assert bare == session().plan(page()).plan.screen
    other = Wishes(asked.model_copy(update={"eviction": Eviction(method="random")}))
    marks = {item.thinning.by for item in session(wishes=other).plan(page()).plan.screen}
    assert marks.isdisjoint(item.thinning.by for item in plan.screen)


def test_what_is_shared_or_in_full_is_not_marked():
    asked = Wishes(Compression(eviction=Eviction(method="vtw")))
    screen = session(layout=LAYOUT, wishes=asked).plan(page()).plan.screen
    assert {item.shared for item in screen} == {True, False}
    assert all((item.thinning is None) == item.shared for item in screen)
    played = thin_session()
    played.wishes = Wishes(asked.compression, resend_thin=True)
    assert all(item.thinning is None for item in played.plan(page()).plan.screen)


def test_each_region_is_chosen_from_by_its_own_pixels():
    played = session("region", wishes=Wishes(Compression(pruning=Pruning(method="random"))))
    planned, _ = played.play(page())
    (item,) = planned.plan.screen
    every = np.ones((5, 7), bool)
    stays = choose(Pruning(method="random"), View(page(), GRID, every))
    assert np.array_equal(token_mask(item, GRID), stays)
    assert item.tokens == kept_count(Pruning(method="random"), 35) == 18


def test_evs_looks_at_the_screen_before():
    played = session(wishes=Wishes(Compression(pruning=Pruning(method="evs", ratio=0.75))))
    first, _ = played.play(page())
    assert sum(item.tokens for item in first.plan.screen) == 35
    second, _ = played.play(touched(page(), (0, 30)))
    (item,) = second.plan.screen
    assert token_mask(item, GRID).tolist() == [[False, False], [True, False]]
    assert covered_mask(item, GRID).all()


def test_a_prompt_that_begins_anew_has_no_screen_before():
    limits = Limits(tokens=10_000, positions=10_000, turns=2)
    played = session(
        limits=limits, wishes=Wishes(Compression(pruning=Pruning(method="evs", ratio=0.75)))
    )
    played.play(page())
    played.play(page())
    planned, _ = played.play(touched(page(), (0, 30)), show=False)
    assert planned.plan.move == "turns"
    assert sum(item.tokens for item in planned.plan.screen) == 35
    # the program did not show it, so that there is none before the next one either
    planned, _ = played.play(page())
    assert planned.plan.move is None
    assert sum(item.tokens for item in planned.plan.screen) == 35


def test_shared_regions_are_thinned_alike():
    def shared(pixels: np.ndarray, method: str) -> list[VisualItem]:
        wishes = Wishes(Compression(pruning=Pruning(method=method)))
        screen = session(layout=LAYOUT, wishes=wishes).plan(pixels).plan.screen
        return [item for item in screen if item.shared]

    for method in METHODS_ON_PIXELS:
        one, two = shared(page(), method), shared(touched(page(), (190, 10)), method)
        assert len(one) == 2 and one == two
    assert [item.tokens for item in shared(page(), "uniform")] == [2, 2]


def thin_session(**options) -> Session:
    """A first screen of which two cells are thin: that at (0, 0) and that at (112, 56)."""
    played = session(**options)
    played.play(page())
    evict(played, (0, 0, FIRST), (112, 56, FIRST))
    return played


def asked(played: Session, pixels: np.ndarray, **wishes) -> MosaicPlan:
    played.wishes = Wishes(Compression(pruning=HALF), **wishes)
    return played.plan(pixels)


def test_thin_cells_are_those_with_fewer_tokens_than_they_have():
    played = thin_session()
    thin = thin_cells(played.held.parts, CELL, GRID)
    assert np.argwhere(thin).tolist() == [[0, 0], [1, 2]]
    # a part that is gone leaves its cell bare
    parts = [part for part in played.held.parts if corners([part]) != [(168, 112)]]
    assert np.argwhere(thin_cells(parts, CELL, GRID)).tolist() == [[0, 0], [1, 2], [2, 3]]


def test_a_thin_cell_may_stay_thin():
    assert asked(thin_session(), page()).plan.screen == []


def test_all_thin_cells_are_sent_again_when_asked():
    planned = asked(thin_session(), page(), resend_thin=True)
    plan = planned.plan
    assert corners(plan.screen) == [(0, 0), (112, 56)]
    assert [item.tokens for item in plan.screen] == [4, 4]
    assert planned.in_full == [0, 1]
    assert [corners([plan.prior[index]]) for index in plan.superseded] == [[(0, 0)], [(112, 56)]]


@pytest.mark.parametrize(
    ("aimed", "sent"),
    [((112, 56), True), ((167, 111), True), ((111, 56), False), ((168, 111), False)],
)
def test_a_thin_cell_is_sent_again_when_an_action_aimed_at_it(aimed, sent):
    plan = asked(thin_session(), page(), aimed=[aimed]).plan
    assert corners(plan.screen) == ([(112, 56)] if sent else [])


def test_only_what_is_sent_again_is_in_full():
    """A thin cell that changed comes in full when something asks for it, beside thinned ones."""
    pixels = touched(page(), (0, 0), (60, 0), (120, 60))
    planned = asked(thin_session(), pixels, aimed=[(10, 10)])
    plan = planned.plan
    assert corners(plan.screen) == [(56, 0), (112, 56), (0, 0)]
    assert [item.tokens for item in plan.screen] == [2, 2, 4]
    assert planned.in_full == [2]


def test_a_cell_that_is_whole_is_thinned_though_aimed_at():
    plan = asked(thin_session(), touched(page(), (60, 0)), aimed=[(60, 0)], resend_thin=True).plan
    assert corners(plan.screen) == [(56, 0), (0, 0), (112, 56)]
    assert [item.tokens for item in plan.screen] == [2, 4, 4]


def test_a_key_screen_is_thinned_as_usual():
    planned = asked(thin_session(), page(1), aimed=[(0, 0)], resend_thin=True)
    assert planned.key and planned.in_full == []
    assert planned.plan.screen[0].tokens == 2


def test_after_it_was_sent_in_full_a_cell_is_thin_no_more():
    played = thin_session()
    played.wishes = Wishes(Compression(pruning=HALF), resend_thin=True)
    played.play(page())
    assert not wanted_again(played.wishes, played.held.parts, CELL, GRID).any()
    assert played.plan(page()).plan.screen == []


def test_in_context_screen_what_is_sent_again_is_an_item_of_its_own():
    """So that an engine can leave it alone."""
    played = session("screen")
    played.play(page())
    evict(played, (0, 0, np.arange(35).reshape(5, 7) != 8))  # a token of the cell at (0, 0)
    planned = asked(played, touched(page(), (60, 0)), resend_thin=True)
    changed, again = planned.plan.screen
    assert (changed.tokens, again.tokens) == (2, 4)
    assert changed.blob == again.blob and planned.in_full == [1]
    assert np.argwhere(token_mask(again, GRID)).tolist() == [[0, 0], [0, 1], [1, 0], [1, 1]]


def test_scrolled_pictures_are_used_though_they_were_thinned():
    played = session(wishes=Wishes(Compression(pruning=HALF)))
    played.play(page())
    sent = set(played.blobs)
    scrolled = page(1)
    scrolled[:-28, :112] = page()[28:, :112]
    scrolled[:, 112:] = page()[:, 112:]
    planned, _ = played.play(scrolled)
    moved = [item for item in planned.plan.screen if item.blob in sent]
    assert len(moved) == 4
    assert all(item.tokens in (1, 2) and covered_mask(item, GRID).all() for item in moved)
