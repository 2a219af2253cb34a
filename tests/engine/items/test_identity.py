"""Identities: equal for equal items, different for all others."""

import numpy as np
import pytest

from agentserve.core.plans import Seal
from agentserve.engine.items.identity import (
    item_embedding,
    item_identity,
    text_embedding,
    text_identity,
)
from agentserve.engine.items.layout import Picture, SealedText, Span

SEAL = Seal(history="0" * 64)


def item(content: str = "a", base: int = 5, time: int = 5, **fields) -> tuple[bytes, int]:
    settings = {"screen": (4, 6), "box": (0, 0, 2, 2), "item": True} | fields
    picture = Picture(**settings)
    span = Span(0, picture.tokens, base, time, ordinary=False)
    return item_identity(content, picture, span), item_embedding(content, picture)


PLACED = {
    "screen": {"screen": (6, 4)},
    "box": {"box": (0, 2, 2, 2)},
    "base": {"base": 6},
    "time": {"time": 6},
    "seal": {"seal": SEAL},
    "history": {"seal": Seal(history="1" * 64)},
}
SEEN = {
    "content": {"content": "b"},
    "kept": {"kept": np.array([0, 1])},
    "kept too": {"kept": np.array([0, 2])},
}


def test_equal_items_are_equal():
    assert item(kept=np.array([1, 3]), seal=SEAL) == item(kept=np.array([1, 3]), seal=SEAL)


def test_every_difference_counts():
    identities = [item(**change)[0] for change in ({}, *PLACED.values(), *SEEN.values())]
    assert len(set(identities)) == len(identities)
    assert all(len(identity) == 32 for identity in identities)


@pytest.mark.parametrize("change", PLACED.values(), ids=PLACED)
def test_the_embedding_does_not_depend_on_the_place(change: dict):
    assert item(**change)[1] == item()[1]


@pytest.mark.parametrize("change", SEEN.values(), ids=SEEN)
def test_the_embedding_depends_on_what_is_seen(change: dict):
    assert item(**change)[1] != item()[1]


def test_sealed_text():
    texts = [
        SealedText(index=3, token=7, position=9, seal=None),
        SealedText(index=3, token=8, position=9, seal=None),
        SealedText(index=3, token=7, position=10, seal=None),
        SealedText(index=3, token=7, position=9, seal=SEAL),
    ]
    assert len({text_identity(text) for text in texts}) == 4
    elsewhere = SealedText(index=4, token=7, position=9, seal=None)
    assert text_identity(elsewhere) == text_identity(texts[0])  # what is before is in the key
    assert [text_embedding(t) == text_embedding(texts[0]) for t in texts] == [1, 0, 1, 1]
