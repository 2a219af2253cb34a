"""What the host sends is laid out by the engine exactly as the pieces say."""

from __future__ import annotations

from itertools import islice

import numpy as np
import pytest
from vision.mosaic_rig import Session, screens, tokens

from agentserve.core.plans import TextPiece, VisualItem
from agentserve.engine.items.layout import lay_out, picture_of
from agentserve.lang.items import engine_form
from agentserve.vision.mosaic import MosaicSettings

GRID, IMAGE = 28, 999


def played(positions: str, context: str = "cell", seed: int = 0, turns: int = 8) -> list[list]:
    """The prompts of a session, and what was held after each."""
    settings = MosaicSettings(grid=GRID, positions=positions, context=context)
    session = Session(settings, cell=56)
    prompts = []
    for pixels in islice(screens(np.random.default_rng(seed), (140, 196), GRID), turns):
        _, prompt = session.play(pixels)
        prompts += [prompt, list(session.held.pieces)]
    return prompts


@pytest.mark.parametrize("context", ["cell", "screen"])
@pytest.mark.parametrize("positions", ["turn", "session"])
def test_the_engine_gives_every_token_its_position(positions, context):
    for prompt in played(positions, context):
        ids, metas = engine_form(prompt, IMAGE, GRID)
        anchors = [anchor for meta in metas for anchor in meta.texts]
        layout = lay_out(ids, IMAGE, [picture_of(meta, GRID) for meta in metas], anchors)
        wanted = [
            (token[1],) * 3 if isinstance(token[0], int) else token[3]
            for token in tokens(prompt, GRID)
        ]
        assert layout.positions.T.tolist() == [list(place) for place in wanted]


def test_every_seal_is_told_once():
    seals = 0
    for prompt in played("turn"):
        _, metas = engine_form(prompt, IMAGE, GRID)
        told = [meta.seal for meta in metas] + [a.seal for meta in metas for a in meta.texts]
        told = [seal.history for seal in told if seal]
        held = [piece.seal for piece in prompt]
        held += [piece.end_seal for piece in prompt if isinstance(piece, VisualItem)]
        held = [seal.history for seal in held if seal]
        assert sorted(told) == sorted(held)
        seals += len(held)
    assert seals


def test_a_first_turn_needs_no_anchors():
    first = played("turn", turns=1)[0]
    ids, metas = engine_form(first, IMAGE, GRID)
    assert all(meta.texts == [] for meta in metas)
    assert ids.count(IMAGE) == len(metas) == 12
    text = [token for piece in first if isinstance(piece, TextPiece) for token in piece.ids]
    assert [token for token in ids if token not in (IMAGE, 1, 2)] == text
