"""The positions of a prompt, against transformers' own for whole pictures."""

import numpy as np
import pytest
import torch
from transformers import Qwen2_5_VLConfig, Qwen2_5_VLModel

from agentserve.core.errors import InvalidRequest
from agentserve.core.item_urls import TextAnchor
from agentserve.core.plans import Seal
from agentserve.engine.items.layout import Picture, lay_out, picture_of

from .pictures import meta, screen

IMAGE = 9
SEAL = Seal(history="0" * 64)


def whole(rows: int, columns: int) -> Picture:
    return Picture((rows, columns), (0, 0, rows, columns))


def part(box: tuple[int, int, int, int], rows: int = 4, columns: int = 6, **fields) -> Picture:
    return Picture((rows, columns), box, item=True, **fields)


def text(layout, index: int) -> int:
    """The position of a text token."""
    t, h, w = layout.positions[:, index].tolist()
    assert t == h == w
    return t


@pytest.fixture(scope="module")
def rope_index():
    """transformers' get_rope_index, of a model without weights."""
    config = Qwen2_5_VLConfig(
        text_config={"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 1},
        vision_config={"depth": 1, "hidden_size": 16, "num_heads": 1},
        image_token_id=IMAGE,
        vision_start_token_id=7,
        video_token_id=10,
    )
    with torch.device("meta"):
        model = Qwen2_5_VLModel(config)

    def index(ids: list[int], grids: list[tuple[int, int]]) -> tuple[np.ndarray, int]:
        positions, delta = model.get_rope_index(
            torch.tensor([ids]),
            mm_token_type_ids=torch.tensor([[int(token == IMAGE) for token in ids]]),
            image_grid_thw=torch.tensor([(1, 2 * rows, 2 * columns) for rows, columns in grids]),
        )
        return positions[:, 0].numpy(), int(delta) + len(ids)

    return index


def test_whole_pictures_lie_as_transformers_puts_them(rope_index):
    ids = [1, 2, 7, IMAGE, 8, 3, 7, IMAGE, 8, 4]
    layout = lay_out(ids, IMAGE, [whole(4, 6), whole(5, 2)])
    positions, following = rope_index(layout.ids, [(4, 6), (5, 2)])
    assert np.array_equal(layout.positions, positions)
    assert layout.next_position == following
    assert [(span.start, span.end, span.ordinary) for span in layout.spans] == [
        (3, 27, True),
        (30, 40, True),
    ]


def test_an_item_of_the_whole_screen_is_an_ordinary_image():
    ids = [1, 7, IMAGE, 8, 2]
    layout = lay_out(ids, IMAGE, [part((0, 0, 4, 6))])
    stock = lay_out(ids, IMAGE, [whole(4, 6)])
    assert np.array_equal(layout.positions, stock.positions)
    assert layout.spans == stock.spans
    assert lay_out(ids, IMAGE, [part((0, 0, 4, 6), base=2)]).spans == stock.spans


@pytest.mark.parametrize(
    "fields",
    [{"base": 3}, {"time": 3}, {"kept": np.array([0])}, {"seal": SEAL}],
    ids=lambda fields: next(iter(fields)),
)
def test_what_differs_from_an_ordinary_image_is_none(fields: dict):
    layout = lay_out([1, 7, IMAGE, 8], IMAGE, [part((0, 0, 4, 6), **fields)])
    assert not layout.spans[0].ordinary


@pytest.mark.parametrize(
    "boxes",
    [((0, 0, 2, 6), (2, 0, 2, 6)), ((0, 0, 1, 6), (1, 0, 2, 6), (3, 0, 1, 6))],
    ids=["halves", "stripes"],
)
def test_a_screen_in_parts_has_the_columns_of_the_whole(boxes):
    stock = lay_out([1, 7, IMAGE, 8, 2], IMAGE, [whole(4, 6)])
    parts = lay_out([1, 7, *[IMAGE] * len(boxes), 8, 2], IMAGE, [part(box) for box in boxes])
    assert parts.ids == stock.ids
    assert np.array_equal(parts.positions, stock.positions)
    assert not any(span.ordinary for span in parts.spans)


def test_parts_in_another_order_keep_their_columns():
    stock = lay_out([7, IMAGE, 8], IMAGE, [whole(2, 4)])
    boxes = [(0, 2, 2, 2), (0, 0, 2, 2)]
    parts = lay_out([7, IMAGE, IMAGE, 8], IMAGE, [part(box, 2, 4) for box in boxes])
    order = np.lexsort(parts.positions[::-1, 1:9])  # by t, h, w
    assert np.array_equal(parts.positions[:, 1:9][:, order], stock.positions[:, 1:9])


def test_text_continues_behind_the_whole_screen():
    layout = lay_out([1, 7, IMAGE, 8], IMAGE, [part((3, 5, 1, 1))])
    assert layout.positions[:, 2].tolist() == [2, 2 + 3, 2 + 5]
    assert text(layout, 3) == 2 + 6
    assert layout.next_position == 2 + 6 + 1


def test_a_keep_set_takes_columns_away_and_moves_none():
    kept = np.array([0, 7, 23])
    stock = lay_out([7, IMAGE, 8], IMAGE, [whole(4, 6)])
    layout = lay_out([7, IMAGE, 8], IMAGE, [part((0, 0, 4, 6), kept=kept)])
    assert layout.ids == [7, IMAGE, IMAGE, IMAGE, 8]
    assert np.array_equal(layout.positions[:, 1:4], stock.positions[:, 1 + kept])
    assert text(layout, 4) == text(stock, -1)


def test_a_base_and_a_time_of_its_own():
    layout = lay_out([7, IMAGE, 8], IMAGE, [part((1, 2, 1, 2), base=40, time=43)])
    assert layout.positions[:, 1:3].tolist() == [[43, 43], [41, 41], [42, 43]]
    assert text(layout, 3) == 46


def test_text_never_goes_back():
    """Later turns of one long video: the base is the first turn's."""
    layout = lay_out([1] * 50 + [IMAGE, 2], IMAGE, [part((0, 0, 1, 1), base=3, time=5)])
    assert text(layout, 51) == 50


def test_screens_apart_do_not_continue_each_other():
    layout = lay_out([IMAGE, 8, IMAGE], IMAGE, [part((0, 0, 1, 1)), part((0, 0, 1, 1))])
    assert [span.base for span in layout.spans] == [0, 7]
    other = lay_out([IMAGE, IMAGE], IMAGE, [part((0, 0, 1, 1)), part((0, 0, 1, 1), 3, 3)])
    assert [span.base for span in other.spans] == [0, 6]


def test_an_anchor_moves_the_text_from_it_on():
    layout = lay_out([1, 2, 3, IMAGE, 4], IMAGE, [whole(2, 2)], [TextAnchor(index=1, position=9)])
    assert [text(layout, i) for i in (0, 1, 2, -1)] == [0, 9, 10, 13]
    assert [(s.index, s.token, s.position, s.seal) for s in layout.sealed] == [(1, 2, 9, None)]


def test_an_anchor_behind_a_picture_counts_the_ids_as_sent():
    anchor = TextAnchor(index=2, position=30, seal=SEAL)
    layout = lay_out([1, IMAGE, 2, 3], IMAGE, [whole(2, 2)], [anchor])
    assert [(s.index, s.token, s.position, s.seal) for s in layout.sealed] == [(5, 2, 30, SEAL)]
    assert text(layout, 6) == 31


def test_an_anchor_that_changes_nothing_seals_nothing():
    assert lay_out([1, 2], IMAGE, [], [TextAnchor(index=1, position=1)]).sealed == []
    assert len(lay_out([1, 2], IMAGE, [], [TextAnchor(index=1, seal=SEAL)]).sealed) == 1


@pytest.mark.parametrize(
    ("ids", "pictures", "anchors", "message"),
    [
        ([1, IMAGE], 2, [], "1 image tokens for 2 pictures"),
        ([1, IMAGE], 1, [1], "no text token"),
        ([1, IMAGE], 1, [2], "no text token"),
        ([1, IMAGE], 1, [0, 0], "same index"),
    ],
)
def test_refusals(ids, pictures: int, anchors, message: str):
    with pytest.raises(InvalidRequest, match=message):
        lay_out(ids, IMAGE, [whole(1, 1)] * pictures, [TextAnchor(index=i) for i in anchors])


def test_px_become_tokens():
    picture = picture_of(meta(screen(1), (56, 28, 112, 84), kept=[1, 5], base=4), 28)
    assert picture.screen == (10, 8)
    assert picture.box == (1, 2, 3, 4)
    assert picture.kept.tolist() == [1, 5]
    assert picture.tokens == 2


def test_a_full_keep_set_is_none():
    assert picture_of(meta(screen(1), (0, 0, 56, 56), kept=range(4)), 28).kept is None


def test_a_box_off_the_grid():
    with pytest.raises(InvalidRequest, match="28 px grid"):
        picture_of(meta(screen(1), (14, 0, 56, 56)), 28)
