"""Where prompts are cut: random prompts, and the cases one by one."""

from __future__ import annotations

import random

import pytest

from agentserve.engine.chunking.cut import WAIT, Room, chunk, cut_at

SIZE = 256
Spans = list[tuple[int, int]]


def random_prompt(seed: int, largest: int = SIZE) -> tuple[int, Spans]:
    """Its length, and the spans of its pictures, with and without text between."""
    draw = random.Random(seed)
    at, pictures = draw.randint(0, 60), []
    for _ in range(draw.randint(1, 8)):
        size = draw.randint(1, largest)
        pictures.append((at, at + size))
        at += size + draw.choice((0, 0, 2, draw.randint(1, 400)))
    return at + draw.randint(1, 60), pictures


def chunks(length: int, pictures: Spans, whole_from: int | None, seed: int) -> list[int]:
    """The ends of its chunks, when other requests are in some of the batches."""
    draw, prefix, ends, waits = random.Random(seed), 0, [], 0
    while prefix < length:
        first = waits > 0 or draw.random() < 0.6
        left = SIZE if first else draw.randint(1, SIZE)
        if first and draw.random() < 0.3:
            left -= draw.randint(1, 60)  # decoding requests have a part of a mixed batch
        tokens = chunk(prefix, length, pictures, whole_from, Room(left, SIZE, first=first))
        if tokens == WAIT:
            assert not first
            waits += 1
            continue
        assert 0 < tokens <= length - prefix
        waits = 0
        prefix += tokens
        ends.append(prefix)
    return ends


def test_no_picture_that_fits_a_chunk_is_cut():
    for seed in range(1000):
        length, pictures = random_prompt(seed)
        ends = chunks(length, pictures, None, seed)
        assert ends[-1] == length
        assert sum(cut_at(end, pictures) for end in ends) == 0, seed


def test_the_stock_order_cuts_them():
    """What the test above would say of chunks that are as large as they may be."""
    cuts = 0
    for seed in range(500):
        length, pictures = random_prompt(seed)
        cuts += sum(cut_at(end, pictures) for end in range(SIZE, length, SIZE))
    assert cuts > 500


def test_only_pictures_larger_than_a_chunk_are_cut():
    cut = 0
    for seed in range(500):
        length, pictures = random_prompt(seed, largest=700)
        for end in chunks(length, pictures, None, seed):
            inside = [(start, stop) for start, stop in pictures if start < end < stop]
            assert all(stop - start > SIZE for start, stop in inside), seed
            cut += len(inside)
    assert cut > 500


def test_what_must_not_be_cut_is_one_chunk():
    """From a picture on, or from a token within it: the picture is whole in any case."""
    for seed in range(500):
        length, pictures = random_prompt(seed)
        start, stop = random.Random(seed).choice(pictures)
        whole_from = random.Random(-seed).randrange(start, stop)
        ends = chunks(length, pictures, whole_from, seed)
        assert not [end for end in ends if whole_from < end < length], seed
        assert sum(cut_at(end, pictures) for end in ends) == 0, seed


def room(left: int, *, first: bool = True) -> Room:
    return Room(left, SIZE, first=first)


@pytest.mark.parametrize(
    ("prefix", "pictures", "whole_from", "given", "expected"),
    [
        (0, [], None, room(256), 256),
        (900, [], None, room(256), 100),
        (0, [(200, 300)], None, room(256), 200),
        (200, [(200, 300)], None, room(256), 256),
        (200, [(200, 300)], None, room(90), 100),
        (200, [(200, 300)], None, room(90, first=False), WAIT),
        (200, [(200, 500)], None, room(256), 256),
        (200, [(200, 500)], None, room(90, first=False), 90),
        (250, [(200, 500)], None, room(100), 100),
        (0, [(0, 256)], None, room(256), 256),
        (0, [], 100, room(256), 100),
        (100, [], 100, room(256), 900),
        (100, [], 100, room(256, first=False), WAIT),
        (300, [], 100, room(256), 700),
        (0, [(50, 150)], 256, room(256), 256),
        (0, [(50, 150)], 100, room(90), 50),
        (0, [(50, 150)], 100, room(120), 50),
        (60, [(50, 150)], 100, room(90), 940),
    ],
)
def test_cases(prefix: int, pictures: Spans, whole_from: int | None, given: Room, expected: int):
    assert chunk(prefix, 1000, pictures, whole_from, given) == expected


def test_ends_inside_pictures():
    pictures = [(10, 20), (20, 30)]
    assert [cut_at(end, pictures) for end in (5, 10, 11, 20, 29, 30)] == [0, 0, 1, 0, 1, 0]
