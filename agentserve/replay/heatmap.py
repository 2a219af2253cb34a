"""A step's screenshot with what the model has of it drawn over it, for people."""

from __future__ import annotations

import base64
import io

import numpy as np
from PIL import Image

from agentserve.core.sessions import TokenMap

TINTS = {
    # (sent in this turn, live behind its answer) -> colour, share of it; pages draw the same
    (True, True): ((46, 160, 67), 0.25),
    (True, False): ((218, 54, 51), 0.6),
    (False, True): ((0, 0, 0), 0.0),
    (False, False): ((110, 118, 129), 0.6),
}
LEGEND = (
    "green: sent in this turn, and left; red: sent, and gone behind the answer; "
    "grey: gone earlier; untinted: left of earlier turns"
)


def draw_heatmap(png: bytes, tokens: TokenMap) -> bytes:
    """``png`` is the step's screenshot, of any size; a PNG of the same size."""
    image = Image.open(io.BytesIO(png)).convert("RGB")
    sent, live = (_places(bitmap, tokens) for bitmap in (tokens.sent, tokens.live))
    colour = np.zeros((tokens.rows, tokens.columns, 3))
    share = np.zeros((tokens.rows, tokens.columns, 1))
    for (is_sent, is_live), (tint, weight) in TINTS.items():
        where = (sent == is_sent) & (live == is_live)
        colour[where], share[where] = tint, weight
    rows = np.arange(image.height) * tokens.rows // image.height
    columns = np.arange(image.width) * tokens.columns // image.width
    colour, share = (each[rows][:, columns] for each in (colour, share))
    mixed = np.asarray(image) * (1 - share) + colour * share
    out = io.BytesIO()
    Image.fromarray(mixed.round().astype(np.uint8)).save(out, "PNG")
    return out.getvalue()


def _places(bitmap: str, tokens: TokenMap) -> np.ndarray:
    """bool [rows, columns]"""
    packed = np.frombuffer(base64.b64decode(bitmap), np.uint8)
    count = tokens.rows * tokens.columns
    return np.unpackbits(packed, count=count).astype(bool).reshape(tokens.rows, tokens.columns)
