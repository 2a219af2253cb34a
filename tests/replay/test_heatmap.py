from __future__ import annotations

import io

import numpy as np
from PIL import Image

from agentserve.core.item_urls import keep_set
from agentserve.core.sessions import TokenMap
from agentserve.replay.heatmap import draw_heatmap


def test_each_token_is_tinted_by_what_became_of_it():
    """A 2 x 2 grid on a white picture of another size: sent and left, sent and gone, gone earlier,
    left of earlier."""
    tokens = TokenMap(
        rows=2,
        columns=2,
        sent=keep_set(np.array([0, 1]), 4),
        live=keep_set(np.array([0, 3]), 4),
    )
    out = io.BytesIO()
    Image.new("RGB", (30, 20), "white").save(out, "PNG")
    with Image.open(io.BytesIO(draw_heatmap(out.getvalue(), tokens))) as image:
        assert image.size == (30, 20)
        pixels = np.asarray(image).astype(int)
    left, gone, earlier, untouched = (
        pixels[:10, :15], pixels[:10, 15:], pixels[10:, :15], pixels[10:, 15:]
    )  # fmt: skip
    for part in (left, gone, earlier, untouched):
        assert (part == part[0, 0]).all()
    assert left[0, 0].argmax() == 1 and left[0, 0].min() > 190
    assert gone[0, 0].argmax() == 0 and gone[0, 0].min() < 140
    assert np.ptp(earlier[0, 0]) < 15 and earlier[0, 0].max() < 190
    assert (untouched == 255).all()


def test_nothing_sent_and_nothing_left():
    tokens = TokenMap(
        rows=1, columns=1, sent=keep_set(np.array([], int), 1), live=keep_set(np.array([], int), 1)
    )
    out = io.BytesIO()
    Image.new("RGB", (3, 3), "white").save(out, "PNG")
    with Image.open(io.BytesIO(draw_heatmap(out.getvalue(), tokens))) as image:
        assert np.asarray(image).max() < 190
