"""The losses: the answer's tokens, and what every place of a picture should know.

The auxiliary heads are thrown away after training. They make a model this small learn to read and
to find from some ten thousand screens instead of millions: a screen has one answer, but hundreds
of letters and places.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from agentserve.nano import recipe
from agentserve.nano.network import NanoNetwork, Outputs
from agentserve.nano.train.batches import Batch
from agentserve.nano.train.targets import CHARACTERS, NONE, ROLES

SHARES = {"answer": 1.0, "characters": 0.5, "words": 0.3, "roles": 0.2, "places": 0.3}
"""Weight of each loss in the sum."""
BINS = 72
"""Bins of 4 px on the longer side of a training screen, at least."""
_CHARACTER_WEIGHT = 6.0
"""A patch shows few of the 95 characters; those it shows count more."""


class Heads(nn.Module):
    """The auxiliary outputs."""

    def __init__(self) -> None:
        super().__init__()
        vision, text = recipe.VISION["hidden_size"], recipe.TEXT["hidden_size"]
        self.characters = nn.Linear(vision, CHARACTERS)
        self.words = nn.Linear(text, text)
        self.roles = nn.Linear(text, len(ROLES) + 1)
        self.places = nn.Sequential(nn.Linear(text, text), nn.GELU(), nn.Linear(text, 2 * BINS))


@dataclass(frozen=True)
class Losses:
    total: Tensor
    parts: dict[str, float]


def losses(network: NanoNetwork, heads: Heads, batch: Batch, out: Outputs) -> Losses:
    """Losses of one batch; ``parts`` are the unweighted means, for curves."""
    said = out.hidden.flatten(0, 1)[batch.learned]
    logits = network.logits(said).float()
    likely = F.log_softmax(logits, dim=-1).gather(1, batch.goals)
    parts = {"answer": -(likely * batch.weights).sum(1).mean()}

    written = heads.characters(out.patches).float()
    weight = torch.tensor(_CHARACTER_WEIGHT, device=written.device)
    parts["characters"] = (
        F.binary_cross_entropy_with_logits(written, batch.characters.float(), pos_weight=weight)
        * CHARACTERS
        / 4
    )
    word_logits = network.logits(heads.words(out.tokens)).float()
    parts["words"] = F.cross_entropy(
        word_logits.flatten(0, 1), batch.words.flatten(), ignore_index=NONE
    )
    parts["roles"] = F.cross_entropy(
        heads.roles(out.middle).float().flatten(0, 1), batch.roles.flatten()
    )
    x, y = heads.places(out.middle).float().chunk(2, dim=-1)
    parts["places"] = sum(
        F.cross_entropy(axis.flatten(0, 1), batch.places[..., i].flatten(), ignore_index=NONE)
        for i, axis in enumerate((x, y))
    )
    total = sum(SHARES[name] * part for name, part in parts.items())
    return Losses(total, {name: float(part.detach()) for name, part in parts.items()})


@torch.no_grad()
def clicks_right(network: NanoNetwork, batch: Batch, out: Outputs) -> list[tuple[str, bool]]:
    """For every click of the batch (its thought given): the task, and whether it would hit."""
    rows = [row for row, _, _ in batch.clicks]
    if not rows:
        return []
    hidden = out.hidden.flatten(0, 1)
    x = network.logits(hidden[batch.learned[rows]]).argmax(-1)
    y = network.logits(hidden[batch.learned[[row + 1 for row in rows]]]).argmax(-1)
    return [
        (task, _hits(answer.box, int(a), int(b)))
        for (_, answer, task), a, b in zip(batch.clicks, x, y, strict=True)
    ]


_FIRST_COORDINATE: dict[int, int] = {}


def _hits(box: tuple[float, float, float, float], x: int, y: int) -> bool:
    values = coordinate_values()
    if x not in values or y not in values:
        return False
    return box[0] <= values[x] <= box[2] and box[1] <= values[y] <= box[3]


def coordinate_values() -> dict[int, int]:
    """Token id → coordinate in px."""
    if not _FIRST_COORDINATE:
        from agentserve.nano.tokenizer import build_tokenizer

        tokenizer = build_tokenizer()
        for value in range(recipe.BIN // 2, recipe.MAX_COORDINATE, recipe.BIN):
            _FIRST_COORDINATE[tokenizer.token_to_id(f"Ġ{value}")] = value
    return _FIRST_COORDINATE
