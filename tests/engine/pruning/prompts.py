"""Random prompts with several pictures to choose from."""

from __future__ import annotations

import random
from dataclasses import dataclass
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
                        seal=seal if picture.chosen else None,
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

    def continued(
        self, outcome: dict[str, Any], ids: list[int]
    ) -> tuple[list[int], list[str]]:
        """The next prompt, which goes on with ``ids``: its own ids, and its pictures' URLs, which
        name what is left of those that were chosen from."""
        keeps = iter(outcome["keeps"])
        metas = [
            picture.meta.model_copy(update={"keep": next(keeps), "seal": SEAL})
            if picture.chosen
            else picture.meta
            for picture in self.pictures
        ]
        images = [png(picture.image) for picture in self.pictures]
        urls = [item_url(meta, image) for meta, image in zip(metas, images, strict=True)]
        return [*self.ids, *ids], urls

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


def random_prompt(
    worker: Worker, seed: int, *, pictures: int | None = None, tail: bool = True
) -> Prompt:
    """Two to four pictures of different sizes, some of them with a keep set, the first sometimes
    not to choose from, with text between; without a ``tail`` the last one ends it."""
    draw = random.Random(seed)
    count = pictures or draw.randint(2, 4)
    text, made = "<|im_start|>user\n", []
    for number in range(count):
        text += " ".join(draw.choices(WORDS, k=draw.randint(1, 8)))
        text += BEGIN + IMAGE + END
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
        made.append(Picture(image, meta, number > 0 or draw.random() < 0.6))
    text += " ".join(draw.choices(WORDS, k=draw.randint(4, 20)))
    ids = worker.ids(text + TAIL)
    if not tail:
        ids = ids[: len(ids) - ids[::-1].index(worker.image_token())]
    return _laid_out(worker, ids, made)


def large_prompt(worker: Worker, seed: int, tokens: int, *, text: int = 20) -> Prompt:
    """Two pictures of ``tokens`` together, a multiple of 40, both to choose from, and about so many
    tokens of text."""
    width, height = GRID * 20, GRID * (tokens // 40)
    size = Size(width=width, height=height)
    box = Box(x=0, y=0, width=width, height=height)
    made = [
        Picture(screen(seed + 50 * i, width, height), ItemMeta(screen=size, box=box), True)
        for i in range(2)
    ]
    draw = random.Random(seed)
    words = " ".join(draw.choices(WORDS, k=text))
    return _laid_out(worker, worker.ids((BEGIN + IMAGE + END) * 2 + words + TAIL), made)


def _laid_out(worker: Worker, ids: list[int], pictures: list[Picture]) -> Prompt:
    placed = [picture_of(picture.meta, GRID) for picture in pictures]
    return Prompt(ids, pictures, lay_out(ids, worker.image_token(), placed))
