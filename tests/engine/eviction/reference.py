"""A reference that keeps one KV cache over all turns, and drops rows of it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from transformers import DynamicCache

from agentserve.core.plans import Piece, VisualItem
from agentserve.engine.eviction.change import plan_change
from agentserve.engine.eviction.keys import rows_of
from agentserve.engine.items.identity import item_identity
from agentserve.engine.items.layout import Layout, Picture, lay_out, picture_of
from agentserve.lang.items import engine_form
from agentserve.vision.settle import token_mask

from ..items.pictures import GRID
from ..items.reference import Reference
from .sessions import Session


class Kept:
    """transformers' own model; its cache is extended, and rows are taken out of it."""

    def __init__(self, reference: Reference, session: Session) -> None:
        self._reference, self._session = reference, session
        self._model = reference.model
        self._cache = DynamicCache(config=self._model.config.get_text_config())
        self._length = 0

    @torch.no_grad()
    def answer(self, pieces: Sequence[Piece], output: Sequence[int]) -> torch.Tensor:
        """Log probabilities [len(output), vocabulary] of an answer to a prompt that begins with
        what is in the cache. All of it but the last token is in the cache afterwards."""
        _, _, layout = self._prompt(pieces)
        tokens = torch.tensor([*layout.ids, *output[:-1]])
        embedded = self._model.get_input_embeddings()(tokens)
        items = [piece for piece in pieces if isinstance(piece, VisualItem)]
        for item, span in zip(items, layout.spans, strict=True):
            whole = self._reference.embeddings(self._session.pictures[item.blob])
            embedded[span.start : span.end] = whole[token_mask(item, GRID).ravel()]
        after = layout.next_position + np.arange(len(output) - 1)
        positions = np.concatenate([layout.positions, np.tile(after, (3, 1))], axis=1)
        logits = self._model(
            inputs_embeds=embedded[None, self._length :],
            position_ids=torch.from_numpy(positions)[:, None, self._length :],
            attention_mask=torch.ones(1, len(tokens), dtype=torch.long),
            past_key_values=self._cache,
            use_cache=True,
        ).logits[0]
        self._length = len(tokens)
        return logits[-len(output) :].log_softmax(-1)

    def drop(self, pieces: Sequence[Piece]) -> None:
        """Take out of the cache what leaves after the last prompt, ``pieces``."""
        image_id, after = self._session.worker.image_token(), self._session.after(pieces)
        ids, pictures, layout = self._prompt(pieces)
        change = plan_change(
            after,
            ids,
            image_id,
            pictures,
            layout,
            lambda i, *place: item_identity(str(i), *place),
            str,
        )
        rows = torch.from_numpy(rows_of(change, self._length))
        for layer in self._cache.layers:
            layer.keys, layer.values = layer.keys[:, :, rows], layer.values[:, :, rows]
        self._length = len(rows)

    def _prompt(self, pieces: Sequence[Piece]) -> tuple[list[int], list[Picture], Layout]:
        image_id = self._session.worker.image_token()
        ids, metas = engine_form(pieces, image_id, GRID)
        pictures = [picture_of(meta, GRID) for meta in metas]
        anchors = [anchor for meta in metas for anchor in meta.texts]
        return ids, pictures, lay_out(ids, image_id, pictures, anchors)
