"""Random prompts with several pictures to choose from."""

from __future__ import annotations

import random
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from PIL import Image

from agentserve.core.item_urls import After, ItemAfter, ItemMeta, item_url, keep_set, kept_tokens
from agentserve.core.plans import Box, Seal
from agentserve.core.pruning import Eviction, Pruning
from agentserve.core.screens import Size
from agentserve.engine.items.layout import Layout, lay_out, picture_of

from ..items.asking import Worker
from ..items.pictures import BEGIN, END, GRID, IMAGE, png, screen

WORDS = (
    "the a red button says open close sign in name field list of press which one is here".split()
)
TAIL = "<|im_end|>\n<|im_start|>assistant\n"
SEAL = Seal(history="5" * 64)


@dataclass(frozen=True)
class Picture:
    image: Image.Image
    meta: ItemMeta
    chosen: bool

    @property
    def tokens(self) -> int:
        width, height = self.image.size
        return (width // GRID) * (height // GRID)


@dataclass(frozen=True)
class Prompt:
    """One prompt, as it is sent and as a reference computes it."""

    ids: list[int]
    pictures: list[Picture]
    layout: Layout

    def sent(
        self,
        pruning: Pruning | None = None,
        eviction: Eviction | None = None,
        seal: Seal | None = SEAL,
    ) -> list[str]:
        """The pictures' URLs; ``seal``: of those to choose from."""
        after = None
        if pruning is not None or eviction is not None:
            after = After(
                owner="test",
                kept=keep_set(np.arange(len(self.ids)), len(self.ids)),
                items=[
                    ItemAfter(
                        keep=picture.meta.keep,
                        chosen=picture.chosen,
                        seal=seal if picture.chosen else picture.meta.seal,
                    )
                    for picture in self.pictures
                ],
                pruning=pruning,
                eviction=eviction,
            )
        metas = [picture.meta for picture in self.pictures]
        metas[0] = metas[0].model_copy(update={"after": after})
        return [
            item_url(meta, png(picture.image))
            for meta, picture in zip(metas, self.pictures, strict=True)
        ]

    def left(self, outcome: dict[str, Any]) -> list[Picture]:
        """The pictures as the next prompt names them: what is left of those to choose from."""
        keeps = iter(outcome["keeps"])
        return [
            Picture(
                picture.image,
                picture.meta.model_copy(update={"keep": next(keeps), "seal": SEAL}),
                chosen=False,
            )
            if picture.chosen
            else picture
            for picture in self.pictures
        ]

    @property
    def open(self) -> list[np.ndarray]:
        """Of each picture to choose from its tokens' places in the prompt."""
        return [
            np.arange(span.start, span.end)
            for picture, span in zip(self.pictures, self.layout.spans, strict=True)
            if picture.chosen
        ]

    def kept(self, outcome: dict[str, Any]) -> list[list[int]]:
        """Of each picture to choose from what is left, counted in its tokens of the prompt."""
        chosen = [picture for picture in self.pictures if picture.chosen]
        lists = []
        for picture, keep in zip(chosen, outcome["keeps"], strict=True):
            left = kept_tokens(keep, picture.tokens)
            if picture.meta.keep is not None:
                left = np.searchsorted(kept_tokens(picture.meta.keep, picture.tokens), left)
            lists.append(left.tolist())
        return lists


def random_prompt(worker: Worker, seed: int, *, tail: bool = True) -> Prompt:
    """Two to four pictures of different sizes, some of them with a keep set, the first sometimes
    not to choose from, with text between; without a ``tail`` the last one ends it."""
    draw = random.Random(seed)
    text, made = _random_pictures(draw, seed, draw.randint(2, 4))
    if draw.random() < 0.4:
        made[0] = replace(made[0], chosen=False)
    ids = worker.ids("<|im_start|>user\n" + text + _random_words(draw, 4, 20) + TAIL)
    if not tail:
        ids = ids[: len(ids) - ids[::-1].index(worker.image_token())]
    return laid_out(worker, ids, made)


def next_prompt(
    worker: Worker, prompt: Prompt, outcome: dict[str, Any], answer: list[int], seed: int
) -> Prompt:
    """One that goes on from the answer with one or two new pictures, to choose from."""
    draw = random.Random(seed)
    text, made = _random_pictures(draw, seed, draw.randint(1, 2))
    text = "<|im_end|>\n<|im_start|>user\n" + text + _random_words(draw, 1, 20) + TAIL
    return laid_out(
        worker, [*prompt.ids, *answer, *worker.ids(text)], [*prompt.left(outcome), *made]
    )


def _random_words(draw: random.Random, least: int, most: int) -> str:
    return " ".join(draw.choices(WORDS, k=draw.randint(least, most)))


def _random_pictures(draw: random.Random, seed: int, count: int) -> tuple[str, list[Picture]]:
    """Text with so many, all to choose from."""
    text, made = "", []
    for number in range(count):
        text += _random_words(draw, 1, 8) + BEGIN + IMAGE + END
        width, height = (GRID * draw.randint(3, 7) for _ in range(2))
        image = screen(1000 * seed + number, width, height)
        tokens = (width // GRID) * (height // GRID)
        keep = None
        if draw.random() < 0.3:
            keep = keep_set(np.sort(draw.sample(range(tokens), tokens * 2 // 3)), tokens)
        meta = ItemMeta(
            screen=Size(width=width, height=height),
            box=Box(x=0, y=0, width=width, height=height),
            keep=keep,
        )
        made.append(Picture(image, meta, chosen=True))
    return text, made


def open_prompts(worker: Worker, count: int, first: int = 0) -> list[Prompt]:
    """The first so many random prompts with something to choose from."""
    found: list[Prompt] = []
    seed = first
    while len(found) < count:
        prompt = random_prompt(worker, seed)
        seed += 1
        if prompt.open:
            found.append(prompt)
    return found


def large_prompt(
    worker: Worker, seed: int, tokens: int, *, pictures: int = 2, text: int = 20
) -> Prompt:
    """So many pictures, 40 tokens wide, of ``tokens`` together, all to choose from, and behind them
    so many words of text."""
    width, height = GRID * 40, GRID * (tokens // pictures // 40)
    size = Size(width=width, height=height)
    box = Box(x=0, y=0, width=width, height=height)
    made = [
        Picture(screen(seed + 50 * i, width, height), ItemMeta(screen=size, box=box), True)
        for i in range(pictures)
    ]
    draw = random.Random(seed)
    words = " ".join(draw.choices(WORDS, k=text))
    return laid_out(worker, worker.ids((BEGIN + IMAGE + END) * pictures + words + TAIL), made)


def laid_out(worker: Worker, ids: list[int], pictures: list[Picture]) -> Prompt:
    """``ids`` with an image token for each picture."""
    placed = [picture_of(picture.meta, GRID) for picture in pictures]
    return Prompt(ids, pictures, lay_out(ids, worker.image_token(), placed))
