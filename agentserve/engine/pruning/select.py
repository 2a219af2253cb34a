"""Tokens chosen from the vision encoder's output, in the scheduler's process.

How many stay is known when a prompt is laid out; which, once its pictures are encoded. So a prompt
runs with stand-ins until then: ``resolve`` puts the choice in their place, before the prompt is
looked up in the prefix cache. From there on it is as if the client had sent the keep set.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from agentserve.core.item_urls import kept_tokens
from agentserve.core.plans import Seal, Selection
from agentserve.engine.items.carried import Carried
from agentserve.engine.items.identity import item_embedding, item_identity
from agentserve.engine.items.layout import Picture, Span
from agentserve.engine.pruning.features import choose_features, merges

_REMEMBERED = 4096


@dataclass(frozen=True)
class Resolved:
    """An item whose tokens are chosen."""

    carried: Carried
    kept: np.ndarray  # int64, ascending: in the item's own raster
    identity: bytes
    embedding: int
    positions: np.ndarray  # int64 [3, kept]


class Choices:
    """What was chosen of pictures, so that they need not be encoded again only to be looked up."""

    def __init__(self) -> None:
        self._known: OrderedDict[tuple[str, str | None], np.ndarray] = OrderedDict()

    def find(self, carried: Carried) -> np.ndarray | None:
        return self._known.get((carried.content, carried.selection))

    def put(self, carried: Carried, features: Tensor) -> np.ndarray:
        """Choose from ``features`` [tokens, width] of the whole picture. Waits for the device."""
        kept = _choice(selection_of(carried), features)[0].cpu().numpy()
        self._known[carried.content, carried.selection] = kept
        if len(self._known) > _REMEMBERED:
            self._known.popitem(last=False)
        return kept


def is_open(carried: Carried | None) -> bool:
    """Whether an item's tokens are still to be chosen."""
    return carried is not None and carried.selection is not None and not selection_of(carried).done


def selection_of(carried: Carried) -> Selection:
    return Selection.model_validate_json(carried.selection or "")


def resolve(carried: Carried, kept: np.ndarray, start: int) -> Resolved:
    """The item with the tokens ``kept`` (int64, ascending), the first of which is at ``start``."""
    selection = selection_of(carried).model_copy(update={"done": True})
    picture = Picture(
        screen=carried.screen,
        box=carried.box,
        kept=kept,
        seal=None if carried.history is None else Seal(history=carried.history),
        item=True,
        selection=selection,
    )
    span = Span(start, start + len(kept), carried.base, carried.time, ordinary=False)
    top, left, _, columns = carried.box
    h, w = np.divmod(kept, columns)
    return Resolved(
        carried=replace(
            carried,
            kept=tuple(kept.tolist()),
            selection=selection.model_dump_json(),
            selected=True,
        ),
        kept=kept,
        identity=item_identity(carried.content, picture, span),
        embedding=item_embedding(carried.content, picture),
        positions=np.stack(
            (np.full_like(h, carried.time), carried.base + top + h, carried.base + left + w)
        ),
    )


def kept_features(carried: Carried | None, feature: Tensor) -> Tensor:
    """What the language model gets of a picture's features [tokens, width]: the kept rows, or what
    was merged into them."""
    if carried is None or carried.kept is None:
        return feature
    kept = torch.tensor(carried.kept, device=feature.device)
    if carried.selection is not None and merges((selection := selection_of(carried)).pruning):
        places, merged = _choice(selection, feature)
        if torch.isin(kept, places).all():  # another device may have rounded to another choice
            return merged[torch.searchsorted(places, kept)]
    return feature[kept]


def _choice(selection: Selection, features: Tensor) -> tuple[Tensor, Tensor]:
    """(Which tokens of the picture stay, what stands for them)."""
    sent = torch.arange(len(features), device=features.device)
    if selection.sent is not None:
        sent = sent[torch.from_numpy(kept_tokens(selection.sent, len(features))).to(sent.device)]
    kept, chosen = choose_features(selection.pruning, features[sent])
    return sent[kept], chosen
