"""What of a prompt leaves: worked out from the request, refused where keys would not tell."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from agentserve.core.errors import InvalidRequest
from agentserve.core.item_urls import After, ItemAfter, TextAnchor, keep_set
from agentserve.core.plans import Seal
from agentserve.engine.eviction.change import Change, change_of, plan_change
from agentserve.engine.items.identity import item_identity
from agentserve.engine.items.layout import Picture, Span, lay_out

IMAGE = 99
SEAL, OTHER = Seal(history="a" * 64), Seal(history="b" * 64)
# a screen of 2 x 4 tokens in two parts, then one that replaces the first
IDS = [1, 2, IMAGE, IMAGE, 3, 4, IMAGE, 5]
ROWS = [0, 1, *[2] * 4, *[3] * 4, 4, 5, *[6] * 4, 7]
"""For each token of the prompt the index of its id."""


def part(left: int, base: int = 2, **fields) -> Picture:
    return Picture((2, 4), (0, left, 2, 2), base=base, item=True, **fields)


PICTURES = [part(0), part(2), part(0, base=8)]


def identify(index: int, picture: Picture, span: Span) -> bytes | None:
    return None if not picture.item else item_identity(content(index), picture, span)


def content(index: int) -> str:
    return f"pixels {index}"


def plan(kept: list[int], items, texts=(), pictures=PICTURES, ids=IDS, anchors=()) -> Change:
    after = After(
        owner="me",
        kept=keep_set(np.array(kept), len(ids)),
        items=[ItemAfter(**item) for item in items],
        texts=list(texts),
    )
    layout = lay_out(ids, IMAGE, pictures, anchors)
    return plan_change(after, ids, IMAGE, pictures, layout, identify, content)


def kept_ids(change: Change) -> list[int]:
    return [ROWS[row] for row in change.rows]


def test_a_part_goes_and_the_next_one_is_sealed():
    change = plan([0, 1, 3, 4, 5, 6, 7], [{"seal": SEAL}, {}])
    assert kept_ids(change) == [0, 1, *[3] * 4, 4, 5, *[6] * 4, 7]
    assert [(span.start, span.end) for span in change.sealed] == [(2, 6)]
    sealed = part(2, seal=SEAL)
    span = Span(2, 6, base=2, time=2, ordinary=False)
    assert change.sealed[0].identity == identify(1, sealed, span)
    assert change.first == 2


def test_a_part_loses_some_tokens():
    keep = keep_set(np.array([0, 3]), 4)
    change = plan([0, 1, 2, 3, 4, 5, 6, 7], [{"keep": keep, "seal": SEAL}, {"seal": OTHER}, {}])
    assert change.rows.tolist() == [0, 1, 2, 5, *range(6, 17)]
    assert [(span.start, span.end) for span in change.sealed] == [(2, 4), (4, 8)]
    assert change.first == 2  # the item's own key changes, though its first token stays


def test_the_seal_of_a_part_that_loses_its_tail_is_its_own():
    """It tells of the part as it was; what follows was computed with that in sight."""
    keep = keep_set(np.array([0, 1]), 4)
    change = plan(list(range(8)), [{"keep": keep, "seal": SEAL}, {}, {}])
    assert change.rows.tolist() == [0, 1, 2, 3, *range(6, 17)]
    with pytest.raises(InvalidRequest, match="token 4 .* follows what leaves"):
        plan([0, 1, 2, 4, 5, 6, 7], [{"keep": keep, "seal": SEAL}, {}])


def test_a_thin_part_loses_more():
    thin = [part(0, kept=np.array([0, 1, 3])), *PICTURES[1:]]
    keep = keep_set(np.array([0, 3]), 4)
    change = plan(
        list(range(8)), [{"keep": keep, "seal": SEAL}, {"seal": OTHER}, {}], pictures=thin
    )
    assert change.rows.tolist() == [0, 1, 2, 4, *range(5, 16)]
    with pytest.raises(InvalidRequest, match="tokens that the prompt has not"):
        plan(list(range(8)), [{"seal": SEAL}, {}, {}], pictures=thin)


def test_a_screen_goes_and_the_text_behind_it_is_anchored():
    anchor = TextAnchor(index=2, position=6, seal=SEAL)
    change = plan([0, 1, 4, 5, 6, 7], [{}], [anchor])
    assert kept_ids(change) == [0, 1, 4, 5, *[6] * 4, 7]
    assert [(span.start, span.end) for span in change.sealed] == [(2, 3)]
    assert change.first == 2


def test_earlier_seals_stay_what_they_are():
    pictures = [part(2, seal=SEAL), part(0, base=8), part(0, base=14)]
    ids = [1, 2, IMAGE, 4, IMAGE, 5, IMAGE, 6]
    anchor = TextAnchor(index=4, position=12, seal=OTHER)
    change = plan([0, 1, 2, 3, 5, 6, 7], [{"seal": SEAL}, {}], [anchor], pictures, ids)
    assert [(span.start, span.end) for span in change.sealed] == [(7, 8)]
    assert change.first == 7


def test_nothing_leaves():
    change = plan(list(range(8)), [{}, {}, {}])
    assert change.first is None
    assert change.sealed == ()
    assert len(change.rows) == 17


def test_it_travels_as_plain_values():
    change = plan([0, 1, 3, 4, 5, 6, 7], [{"seal": SEAL}, {}])
    item = SimpleNamespace(model_specific_data={"other": 1} | change.pack())
    assert change_of(item) == change
    assert change_of(SimpleNamespace(model_specific_data={})) is None


@pytest.mark.parametrize(
    ("kept", "items", "texts", "message"),
    [
        ([0, 1, 3, 4, 5, 6, 7], [{}, {}], [], "token 2 .* follows what leaves"),
        ([0, 1, 3, 4, 5, 6, 7], [{"seal": SEAL}], [], "2 pictures stay, 1 are described"),
        ([0, 2, 3, 4, 5, 6, 7], [{}, {}, {}], [], "token 1 .* follows what leaves"),
        ([0, 1, 4, 5, 6, 7], [{}], [], r"would move from \[6, 6, 6\] to \[2, 2, 2\]"),
        (
            [0, 1, 4, 5, 6, 7],
            [{}],
            [TextAnchor(index=2, position=6)],
            "another identity than in the prompt, and no seal",
        ),
        ([0, 1, 2, 3, 4, 5, 6], [{}, {}, {}], [], "last token stays"),
        (
            list(range(8)),
            [{"keep": keep_set(np.array([0]), 4)}, {"seal": SEAL}, {}],
            [],
            "another identity than in the prompt, and no seal",
        ),
        (list(range(8)), [{}, {}, {}], [TextAnchor(index=2)], "that of no text token"),
    ],
    ids=[
        "no seal behind an item",
        "items",
        "no seal behind text",
        "moved",
        "anchored without a seal",
        "the end",
        "a part without a seal",
        "anchor",
    ],
)
def test_refusals(kept, items, texts, message: str):
    with pytest.raises(InvalidRequest, match=message):
        plan(kept, items, texts)


def test_a_seal_does_not_get_lost():
    pictures = [part(0, seal=SEAL), *PICTURES[1:]]
    with pytest.raises(InvalidRequest, match="no seal"):
        plan(list(range(8)), [{}, {}, {}], pictures=pictures)
    anchors = [TextAnchor(index=4, seal=SEAL)]
    with pytest.raises(InvalidRequest, match="token 10 .* would lose its place or its seal"):
        plan(list(range(8)), [{}, {}, {}], anchors=anchors)


def test_ordinary_pictures_stay_as_they_are_or_go():
    ordinary = Picture((2, 2), (0, 0, 2, 2))
    ids = [1, IMAGE, 2, IMAGE, IMAGE, 3]
    pictures = [ordinary, part(0, base=5), part(2, base=5)]
    change = plan([0, 1, 2, 4, 5], [{}, {"seal": SEAL}], pictures=pictures, ids=ids)
    assert change.first == 6
    with pytest.raises(InvalidRequest, match="an ordinary picture stays as it is, or goes"):
        plan([0, 1, 2, 4, 5], [{"seal": SEAL}, {"seal": SEAL}], pictures=pictures, ids=ids)
