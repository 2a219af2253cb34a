"""A mosaic session against a worker: turns of screens that change, each settled once answered."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from copy import copy
from dataclasses import dataclass, field
from typing import Any

import httpx
from PIL import Image

from agentserve.core.item_urls import After, ItemMeta, item_url
from agentserve.core.plans import Box, Piece, TextPiece, VisualItem, next_position, num_tokens
from agentserve.core.pruning import Compression
from agentserve.core.screens import Size
from agentserve.lang.items import after_form, engine_form
from agentserve.vision.regions import Region
from agentserve.vision.settle import settle
from agentserve.vision.thinning import marked

from ..items.asking import Answer, Worker, answer_of
from ..items.pictures import BEGIN, END, GRID, png

WIDTH, HEIGHT = 224, 168
"""A screen of four parts of 12 tokens."""
PARTS = [(x, y, 112, 84) for y in (0, 84) for x in (0, 112)]
SYSTEM = "<|im_start|>system\nYou are an agent.<|im_end|>\n<|im_start|>user\nClick the button.\n"
TAIL = "<|im_end|>\n<|im_start|>assistant\n"
NEXT = "<|im_end|>\n<|im_start|>user\n"

Place = tuple[int, int, int, int]


@dataclass(frozen=True)
class Turn:
    """One prompt and its answer."""

    answer: Answer
    outcome: dict[str, Any]
    """``meta_info["agentserve"]``."""
    pieces: list[Piece]
    """Of the prompt."""

    @property
    def prefilled(self) -> int:
        return self.answer.prompt_tokens - self.answer.cached


@dataclass
class Session:
    worker: Worker
    owner: str
    pieces: list[Piece] = field(default_factory=list)
    """What is left of every turn so far, and the answers."""
    forked: bool = False
    """Whether another session goes on from the same turn."""
    pictures: dict[str, Image.Image] = field(default_factory=dict)

    def fork(self, owner: str) -> Session:
        """Another session that continues this one's last turn. Both go on in any order."""
        self.forked = True
        other = copy(self)
        other.owner, other.pieces = owner, list(self.pieces)
        return other

    def turn(
        self,
        screen: Image.Image,
        parts: Iterable[Place],
        text: str = "",
        compression: Compression = Compression(),
        **body: Any,
    ) -> Turn:
        """Send ``parts`` of ``screen`` and settle; ``body`` are further fields of the request."""
        pieces = self.prompt(screen, parts, text, compression)
        sent = self.body(pieces, compression=compression, **body)
        answered = self.worker.client.post("/generate", json=sent).raise_for_status().json()
        turn = Turn(answer_of(answered), answered["meta_info"]["agentserve"], pieces)
        self.answered(_told(pieces, turn.outcome), turn.answer.ids)
        return turn

    def prompt(
        self,
        screen: Image.Image,
        parts: Iterable[Place],
        text: str,
        compression: Compression = Compression(),
    ) -> list[Piece]:
        """The pieces of the next prompt."""
        pieces = list(self.pieces)
        head = SYSTEM if not pieces else NEXT
        self._add_text(pieces, self.worker.ids(head + text))
        position = next_position(pieces, GRID)
        begin, end = self.worker.ids(BEGIN), self.worker.ids(END)
        base = position + len(begin)
        items = [
            marked(
                self._part(screen, place, base),
                Region(Box(x=0, y=0, width=1, height=1)),
                compression,
            )
            for place in parts
        ]
        items[0] = items[0].model_copy(update={"begin": begin, "position": position})
        items[-1] = items[-1].model_copy(update={"end": end})
        pieces += items
        self._add_text(pieces, self.worker.ids(TAIL))
        return pieces

    def body(
        self,
        pieces: Sequence[Piece],
        *,
        evict: bool = True,
        compression: Compression = Compression(),
        **fields: Any,
    ) -> dict[str, Any]:
        """The request of a prompt; ``evict``: what it supersedes leaves once it is answered."""
        ids, metas = engine_form(pieces, self.worker.image_token(), GRID)
        if evict:
            after = self.after(pieces, compression)
            metas[0] = metas[0].model_copy(update={"after": after})
        items = [piece for piece in pieces if isinstance(piece, VisualItem)]
        images = [self._url(item, meta) for item, meta in zip(items, metas, strict=True)]
        return self.worker.body(ids, images, **fields)

    def after(self, pieces: Sequence[Piece], compression: Compression = Compression()) -> After:
        """What stays of a prompt once it is answered."""
        image_id = self.worker.image_token()
        return after_form(
            pieces,
            settle(pieces, GRID),
            image_id,
            GRID,
            owner=self.owner,
            forked=self.forked,
            compression=compression,
        )

    def answered(self, pieces: Sequence[Piece], answer: Sequence[int]) -> None:
        """Go on from what is left of the prompt, and its answer."""
        self.forked = False
        self.pieces = settle(pieces, GRID)
        self._add_text(self.pieces, answer)

    @property
    def live(self) -> int:
        """Tokens of what is left."""
        return num_tokens(self.pieces)

    def _add_text(self, pieces: list[Piece], ids: Sequence[int]) -> None:
        pieces.append(TextPiece(ids=list(ids), position=next_position(pieces, GRID)))

    def _part(self, screen: Image.Image, place: Place, base: int) -> VisualItem:
        x, y, width, height = place
        pixels = screen.crop((x, y, x + width, y + height))
        blob = hashlib.sha256(pixels.tobytes()).hexdigest()
        self.pictures[blob] = pixels
        return VisualItem(
            blob=blob,
            size=Size(width=width, height=height),
            tokens=(width // GRID) * (height // GRID),
            turn=0,
            screen=Size(width=screen.width, height=screen.height),
            box=Box(x=x, y=y, width=width, height=height),
            base=base,
            position=base,
        )

    def _url(self, item: VisualItem, meta: ItemMeta) -> str:
        return item_url(meta, png(self.pictures[item.blob]))


def _told(pieces: Sequence[Piece], outcome: dict[str, Any]) -> list[Piece]:
    """The prompt's pieces with what the worker says that it chose of them."""
    selected, keeps = iter(outcome["selected"]), iter(outcome["keeps"])
    told: list[Piece] = []
    for piece in pieces:
        changes: dict[str, Any] = {}
        if isinstance(piece, VisualItem) and piece.selection and not piece.selection.done:
            done = piece.selection.model_copy(update={"done": True})
            changes |= {"keep": next(selected), "selection": done}
        if isinstance(piece, VisualItem) and piece.thinning is not None:
            keep = next(keeps, None)
            changes["thinning"] = piece.thinning.model_copy(update={"keep": keep})
        told.append(piece.model_copy(update=changes))
    return told


def slots_in_use(client: httpx.Client) -> int:
    """Slots of the KV pool that the prefix tree of an idle worker holds, by its own count.

    The worker counts when it runs something: a prompt of one token, which then has a slot itself.
    """
    probe = {"input_ids": [1], "sampling_params": {"max_new_tokens": 1}}
    for _ in range(2):
        client.post("/generate", json=probe).raise_for_status()
    metrics = client.get("/metrics").raise_for_status().text
    (line,) = [
        line for line in metrics.splitlines() if line.startswith("sglang:kv_evictable_tokens{")
    ]
    return int(float(line.split()[-1])) - 1
