"""A change whose items are chosen from is the change of a client that names what is left."""

from __future__ import annotations

import random
from dataclasses import dataclass, replace
from types import SimpleNamespace

import numpy as np
import pytest

from agentserve.core.errors import InvalidRequest
from agentserve.core.item_urls import After, ItemAfter, TextAnchor, keep_set
from agentserve.core.plans import Seal
from agentserve.core.pruning import Eviction
from agentserve.engine.eviction.change import Change, change_of, plan_change
from agentserve.engine.items.identity import item_identity
from agentserve.engine.items.layout import Layout, Picture, Span, lay_out

IMAGE = 99
ROWS, COLUMNS = 4, 6
EVICTION = Eviction(method="random")


def seal(number: int) -> Seal:
    return Seal(history=f"{number:064x}")


@dataclass
class Case:
    """Screens of one or two parts with text between: some parts leave, of some is chosen."""

    ids: list[int]
    pictures: list[Picture]
    roles: list[str]
    layout: Layout
    may_stay: list[np.ndarray]
    """Of every picture, in its own raster."""

    def change(self, keeps: list[np.ndarray] | None = None, **fields) -> Change:
        """The engine chooses; or the client does: ``keeps`` of the pictures to choose from."""
        explicit = iter(keeps or ())
        items, kept, texts = [], [], []
        picture, gone = -1, False
        for index, token in enumerate(self.ids):
            if token == IMAGE:
                picture += 1
                role = self.roles[picture]
                if role == "leaves":
                    gone = True
                    continue
                chosen = role == "chosen"
                stays = self.may_stay[picture]
                if chosen and keeps is not None:
                    stays = next(explicit)
                items.append(
                    ItemAfter(
                        keep=keep_set(stays, self._tokens(picture)),
                        seal=seal(picture) if chosen or gone else None,
                        chosen=chosen and keeps is None,
                    )
                )
            elif gone:
                place = self.layout.positions[0, self._token(index)]
                texts.append(
                    TextAnchor(index=len(kept), position=int(place), seal=seal(100 + index))
                )
            gone = False
            kept.append(index)
        after = After(
            owner="me",
            kept=keep_set(np.array(kept), len(self.ids)),
            items=items,
            texts=texts,
            eviction=EVICTION if keeps is None else None,
        )
        return plan_change(
            after,
            self.ids,
            IMAGE,
            self.pictures,
            self.layout,
            lambda i, picture, span: item_identity(f"pixels {i}", picture, span),
            lambda i: f"pixels {i}",
        )

    def _tokens(self, picture: int) -> int:
        return self.pictures[picture].box[2] * self.pictures[picture].box[3]

    def _token(self, index: int) -> int:
        """Where an id is in the layout."""
        before = sum(token == IMAGE for token in self.ids[:index])
        return index + sum(picture.tokens - 1 for picture in self.pictures[:before])


def random_case(seed: int) -> Case:
    draw = random.Random(seed)
    ids, pictures, roles = [1], [], []
    for _ in range(draw.randint(1, 4)):
        ids += draw.choices(range(1, 50), k=draw.randint(1, 3))
        parts = draw.choice(
            [[(0, 0, ROWS, COLUMNS)], [(0, 0, ROWS, 3), (0, 3, ROWS, 3)], [(1, 2, 2, 3)]]
        )
        for box in parts:
            ids.append(IMAGE)
            tokens = box[2] * box[3]
            kept = None
            if draw.random() < 0.4:
                kept = np.sort(draw.sample(range(tokens), draw.randint(1, tokens - 1)))
            pictures.append(Picture((ROWS, COLUMNS), box, kept, item=True))
            roles.append(draw.choice(["leaves", "chosen", "chosen", "stays"]))
    roles[draw.randrange(len(roles))] = "chosen"
    ids += draw.choices(range(1, 50), k=draw.randint(1, 3))
    may_stay = []
    for picture, role in zip(pictures, roles, strict=True):
        present = np.arange(picture.box[2] * picture.box[3])
        present = present if picture.kept is None else picture.kept
        if role == "chosen" and draw.random() < 0.3:
            present = np.sort(draw.sample(present.tolist(), draw.randint(1, len(present))))
        may_stay.append(np.asarray(present))
    return Case(ids, pictures, roles, lay_out(ids, IMAGE, pictures), may_stay)


def test_it_is_what_a_client_would_have_said():
    smaller = 0
    for seed in range(500):
        case, draw = random_case(seed), random.Random(-seed)
        change = case.change()
        parts = [
            np.sort(draw.sample(range(len(item.tokens)), draw.randint(1, len(item.tokens))))
            for item in change.open
        ]
        keeps = [
            np.asarray(item.raster)[part] for item, part in zip(change.open, parts, strict=True)
        ]
        explicit = case.change(keeps)
        chosen = change.chosen(parts)
        assert chosen == replace(explicit, compression=change.compression), seed
        assert np.array_equal(chosen.rows, explicit.rows)
        smaller += len(chosen.rows) < len(change.rows)
    assert smaller > 400


def test_choosing_all_is_the_change_itself():
    for seed in range(100):
        case = random_case(seed)
        change = case.change()
        every = [np.arange(len(item.tokens)) for item in change.open]
        assert change.chosen(every) == replace(change, open=())


def test_the_first_that_changes_is_no_later_than_what_may_go():
    """What the cache stores before the choice is made does not depend on it."""
    for seed in range(200):
        change = random_case(seed).change()
        assert change.first is not None
        assert change.first <= min(item.start for item in change.open)


def test_it_travels():
    change = random_case(3).change()
    assert change.open
    # tuples come out of the transport as lists
    packed = {"agentserve-after": _lists(change.pack()["agentserve-after"])}
    assert change_of(SimpleNamespace(model_specific_data=packed)) == change


def _lists(value):
    if isinstance(value, dict):
        return {key: _lists(each) for key, each in value.items()}
    return [_lists(each) for each in value] if isinstance(value, list | tuple) else value


def plan(ids: list[int], item: ItemAfter) -> Change:
    picture = Picture((2, 2), (0, 0, 2, 2), item=True)

    def identify(_: int, of: Picture, span: Span) -> bytes:
        return item_identity("pixels", of, span)

    after = After(
        owner="me",
        kept=keep_set(np.arange(len(ids)), len(ids)),
        items=[item],
        eviction=EVICTION,
    )
    layout = lay_out(ids, IMAGE, [picture])
    return plan_change(after, ids, IMAGE, [picture], layout, identify, lambda _: "pixels")


def test_refusals():
    with pytest.raises(InvalidRequest, match="an item to choose from has no seal"):
        plan([1, IMAGE, 2], ItemAfter(chosen=True))
    with pytest.raises(InvalidRequest, match="text follows the items to choose from"):
        plan([1, IMAGE], ItemAfter(chosen=True, seal=seal(1)))
    assert len(plan([1, IMAGE, 2], ItemAfter(chosen=True, seal=seal(1))).open) == 1
