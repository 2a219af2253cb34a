"""What it costs that the layers before a pruning lose the dropped tokens too.

In the papers they keep them for the answer. Both are computed by the reference of the engine tests
with the trained weights, on the screens and answers of the expert: how likely each of the answer's
tokens is, and whether it is the likeliest.
"""

from __future__ import annotations

import io
import json
import os
import sys
from pathlib import Path

import pytest
import torch
from engine.items.reference import Reference
from engine.pruning.prompts import Picture, Prompt
from engine.pruning.reference import PrunedReference
from PIL import Image

from agentserve.core.item_urls import ItemMeta
from agentserve.core.plans import Box
from agentserve.core.pruning import Pruning, stage_layers
from agentserve.core.screens import Size
from agentserve.engine.items.layout import lay_out, picture_of
from agentserve.nano import nano_path
from agentserve.nano.evaluate.provenance import commit
from agentserve.nano.train.prompts import Answer, Speller, write_single

from .test_same_logprobs import expert_screens, one_placeholder

GRID = 28
METHODS = ("fastv", "pyramid_drop", "btp", "sparsevlm")


def written(speller: Speller, png: bytes, goal: str, answer: Answer) -> tuple[Prompt, list[int]]:
    """The prompt of one screen, all of it to choose from, and the answer's tokens."""
    image = Image.open(io.BytesIO(png)).convert("RGB")
    size = Size(width=image.width, height=image.height)
    box = Box(x=0, y=0, width=size.width, height=size.height)
    picture = Picture(image, ItemMeta(screen=size, box=box), chosen=True)
    columns, rows = size.width // GRID, size.height // GRID
    tokens = write_single(speller, rows, columns, [(goal, answer)])
    ids = [*speller.prefix(), *tokens.ids]
    learned = sum(tokens.learned)
    asked = one_placeholder(ids[:-learned], speller.image)
    layout = lay_out(asked, speller.image, [picture_of(picture.meta, GRID)])
    return Prompt(asked, [picture], layout), ids[-learned:]


@pytest.mark.soak
@pytest.mark.timeout(3600)
async def test_both_on_fifty_screens(tmp_path: Path) -> None:
    speller = Speller()
    reference = PrunedReference(Reference(nano_path()))
    depth = len(reference._text.layers)
    cases = [written(speller, *screen) for screen in await expert_screens()]
    figures = {}
    for name, pruning, early in [
        ("off", None, False),
        *((m, Pruning(method=m, ratio=0.5), early) for m in METHODS for early in (False, True)),
    ]:
        stages = [] if pruning is None else stage_layers(pruning, depth)
        likely, right, total = 0.0, 0, 0
        for prompt, answer in cases:
            told = reference.answer(prompt, pruning, stages, answer, keeps_early=early)
            wanted = torch.tensor(answer)
            likely += float(told.logprobs.gather(1, wanted[:, None]).sum())
            right += int((told.logprobs.argmax(1) == wanted).sum())
            total += len(answer)
        key = name if pruning is None else f"{name}:0.5, early layers {'keep' if early else 'lose'}"
        figures[key] = {"tokens": total, "mean_logprob": likely / total, "right": right / total}
        print(f"{key:40} {likely / total:8.4f} {right / total:6.1%}")
    out = Path(os.environ.get("AGENTSERVE_RESULTS", tmp_path)) / "early-layers.json"
    told = {"command": " ".join(sys.argv), "commit": commit(), "settings": figures}
    out.write_text(json.dumps(told, indent=1))
    # a reference that ignored the switch would give equal figures
    for method in METHODS:
        lose, keep = (figures[f"{method}:0.5, early layers {x}"] for x in ("lose", "keep"))
        assert lose["mean_logprob"] != keep["mean_logprob"]
    assert figures["off"]["right"] > 0.8
