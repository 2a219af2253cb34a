"""A real worker cuts no picture that fits a chunk, and says so."""

from __future__ import annotations

import random
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from agentserve.core.pruning import Pruning
from agentserve.engine.chunking.cut import cut_at
from agentserve.engine.eviction.outcome import KEY

from ..checked import checked_worker
from ..items.asking import Worker
from ..items.pictures import BEGIN, END, GRID, IMAGE, item, plain, screen
from ..pruning.prompts import WORDS, open_prompts

pytestmark = pytest.mark.timeout(900)

ROUNDING = 2e-3
CHUNK = 64
"""Of the session's worker."""


def cuts(worker: Worker, text: str, images: list[str]) -> int:
    response = worker.post(text, images, sampling_params={"max_new_tokens": 1})
    return response.raise_for_status().json()["meta_info"][KEY]["cut_items"]


def random_text(draw: random.Random) -> str:
    return " ".join(draw.choices(WORDS, k=draw.randint(1, 60)))


def random_prompt(seed: int, chunk: int) -> tuple[str, list[str], list[int]]:
    """Its text, its pictures, and how many tokens these have: together more than a chunk."""
    draw = random.Random(seed)
    text, images, sizes = random_text(draw), [], []
    while sum(sizes) <= chunk or len(sizes) < 2:
        rows = draw.randint(1, int(chunk**0.5))
        columns = draw.randint(2, min(chunk // rows, 150 * rows))  # longer ones are refused
        image = screen(draw.randrange(1 << 30), GRID * columns, GRID * rows)
        # an ordinary picture may be made larger than it is: its tokens are not told
        images.append(item(image, (0, 0, *image.size), base=1000 * len(sizes)))
        sizes.append(rows * columns)
        text += BEGIN + IMAGE + END + random_text(draw)
    return text, images, sizes


def stock_cuts(worker: Worker, text: str, sizes: list[int], chunk: int) -> int:
    """How many chunks of the full size would end inside a picture."""
    spans, at = [], 0
    left = iter(sizes)
    for token in worker.ids(text):
        size = next(left) if token == worker.image_token() else 1
        if token == worker.image_token():
            spans.append((at, at + size))
        at += size
    return sum(cut_at(end, spans) for end in range(chunk, at, chunk))


def test_pictures_are_whole(worker: Worker):
    worker.flush()
    stock = 0
    for seed in range(10):
        text, images, sizes = random_prompt(seed, CHUNK)
        assert cuts(worker, text, images) == 0
        stock += stock_cuts(worker, text, sizes, CHUNK)
    assert stock > 5


def test_a_picture_larger_than_a_chunk_is_cut_and_counted(worker: Worker):
    worker.flush()
    image = screen(1, GRID * 10, GRID * 16)  # 160 tokens
    text = f"press{BEGIN}{IMAGE}{END}here"
    assert cuts(worker, text, [item(image)]) == 2
    worker.flush()
    assert cuts(worker, text, [plain(image)]) == 2
    assert cuts(worker, text, [plain(image)]) == 0  # cached


def test_what_is_pruned_is_not_cut(worker: Worker):
    pruning = Pruning(method="fastv", ratio=0.5)
    prompts = [p for p in open_prompts(worker, 8) if len(p.layout.ids) > CHUNK]
    assert len(prompts) > 4
    for prompt in prompts:
        worker.flush()
        response = worker.post(prompt.ids, prompt.sent(pruning))
        outcome = response.raise_for_status().json()["meta_info"][KEY]
        assert (outcome["cut_items"], outcome["unchosen"]) == (0, None)


def test_several_unfinished_prompts_at_once(worker: Worker):
    """A chunk that ends before a picture leaves room, and no other prompt is begun in it."""
    prompts: list[tuple[str, list[str]]] = []
    for seed in range(100, 106):
        draw = random.Random(seed)
        prompts += [random_prompt(seed, CHUNK)[:2], (random_text(draw) * 4, [])]
    alone = [worker.ask_cold(*prompt) for prompt in prompts]
    worker.flush()
    with ThreadPoolExecutor(6) as pool:
        together = list(pool.map(lambda prompt: worker.ask(*prompt), prompts))
    for one, other in zip(alone, together, strict=True):
        assert (one.ids, one.prompt_tokens) == (other.ids, other.prompt_tokens)
        assert one.distance(other) < ROUNDING


@pytest.mark.soak
@pytest.mark.timeout(3600)
def test_500_prompts_in_chunks_of_256(tmp_path: Path, checkpoint: Path, record_property):
    prompts = [random_prompt(seed, 256) for seed in range(500)]
    arguments = ("--chunked-prefill-size", "256")
    with checked_worker(tmp_path, checkpoint, *arguments) as worker:
        stock = sum(stock_cuts(worker, text, sizes, 256) for text, _, sizes in prompts)
        with ThreadPoolExecutor(3) as pool:  # some share their batches
            counts = list(pool.map(lambda prompt: cuts(worker, *prompt[:2]), prompts))
    record_property("cut by the stock order", stock)
    record_property("cut", sum(counts))
    assert sum(counts) == 0
    assert stock > 250  # so that the count above could be another
