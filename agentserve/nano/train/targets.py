"""What every place of a picture should know, for the auxiliary losses: numpy arrays per picture.

With rows x columns merged tokens (28 px), each of 2x2 patches (14 px):

* which printable characters have their middle in a patch,
* which word a token shows most of,
* which element a token belongs to: its role, and the bins of its middle.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from agentserve.nano import recipe
from agentserve.nano.train.prompts import Speller

CHARACTERS = 95
"""Printable ASCII, from the space."""
ROLES = (
    "button", "link", "text field", "password field", "text area", "checkbox", "radio", "tab",
    "select", "option", "heading", "label", "shape", "colour square", "close x",
    "dialog title", "clickable",
)  # fmt: skip
PATCH = recipe.GRID // 2
NONE = -100
"""A label that is left out of a loss."""


@dataclass(frozen=True)
class PictureTargets:
    characters: np.ndarray
    """uint8 [4T, CHARACTERS], patches in the encoder's order (2x2 patches of a token together)."""
    words: np.ndarray
    """int64 [T]: a token id, the id of "nothing", or NONE for a word that is no single token. A
    square of one colour counts as its name."""
    roles: np.ndarray
    """int64 [T]: index into ROLES + 1, 0 for no element."""
    places: np.ndarray
    """int64 [T, 2]: bins of the element's middle (x, y), NONE for no element."""


def picture_targets(
    record: dict[str, Any], rows: int, columns: int, speller: Speller
) -> PictureTargets:
    words = [w for w in record["words"] if len(w) > 4]
    roles, places = _elements(record["elements"], rows, columns)
    colours = [
        [colour_name(e["text"]), top, bottom, left, right]
        for e in record["elements"]
        if e["role"] == "colour square"
        for left, top, right, bottom in [e["box"]]
    ]
    return PictureTargets(
        _characters(words, rows, columns),
        _words(words + colours, rows, columns, speller),
        roles,
        places,
    )


def colour_name(text: str) -> str:
    """As the tasks write it: CSS takes two spellings of grey."""
    return "grey" if text == "gray" else text


def _characters(words: list[Any], rows: int, columns: int) -> np.ndarray:
    out = np.zeros((rows, columns, 2, 2, CHARACTERS), np.uint8)
    for text, top, bottom, *edges in words:
        y = int((top + bottom) / 2 // PATCH)
        if not 0 <= y < 2 * rows:
            continue
        for character, left, right in zip(text, edges, edges[1:], strict=False):
            x, code = int((left + right) / 2 // PATCH), ord(character) - 32
            if 0 <= x < 2 * columns and 0 < code < CHARACTERS:
                out[y // 2, x // 2, y % 2, x % 2, code] = 1
    return out.reshape(rows * columns * 4, CHARACTERS)


def _words(words: list[Any], rows: int, columns: int, speller: Speller) -> np.ndarray:
    labels = np.full((rows, columns), speller.nothing, np.int64)
    if not words:
        return labels.reshape(-1)
    boxes = np.array([(w[3], w[1], w[-1], w[2]) for w in words])
    area = overlaps(boxes, rows, columns)  # [W, rows, columns]
    best = area.argmax(0)
    for y, x in zip(*np.nonzero(area.max(0) > 0.06 * recipe.GRID**2), strict=True):
        found = speller.word(words[best[y, x]][0].strip('.,:;!?"()'))
        labels[y, x] = NONE if found is None else found
    return labels.reshape(-1)


def _elements(elements: list[Any], rows: int, columns: int) -> tuple[np.ndarray, np.ndarray]:
    roles = np.zeros((rows, columns), np.int64)
    places = np.full((rows, columns, 2), NONE, np.int64)
    if elements:
        boxes = np.array([e["box"] for e in elements], float)
        sizes = np.maximum((boxes[:, 2] - boxes[:, 0]) * (boxes[:, 3] - boxes[:, 1]), 1)
        area = overlaps(boxes, rows, columns)
        # how much of the token or of the element the two share; of equals the smaller element
        share = area / np.minimum(sizes, recipe.GRID**2)[:, None, None]
        share = np.where(share > 0.3, share + 100 / sizes[:, None, None], 0)
        best = share.argmax(0)
        for y, x in zip(*np.nonzero(share.max(0)), strict=True):
            left, top, right, bottom = boxes[best[y, x]]
            role = elements[best[y, x]]["role"]
            roles[y, x] = ROLES.index(role) + 1 if role in ROLES else len(ROLES)
            places[y, x, 0] = np.clip((left + right) / 2 // recipe.BIN, 0, 7 * columns - 1)
            places[y, x, 1] = np.clip((top + bottom) / 2 // recipe.BIN, 0, 7 * rows - 1)
    return roles.reshape(-1), places.reshape(-1, 2)


def overlaps(boxes: np.ndarray, rows: int, columns: int) -> np.ndarray:
    """``boxes`` [B, 4] (left, top, right, bottom) → the area in px² that each shares with every
    token [B, rows, columns]."""
    x = np.arange(columns) * recipe.GRID
    y = np.arange(rows) * recipe.GRID
    wide = np.minimum(boxes[:, 2:3], x + recipe.GRID) - np.maximum(boxes[:, 0:1], x)
    high = np.minimum(boxes[:, 3:4], y + recipe.GRID) - np.maximum(boxes[:, 1:2], y)
    return np.maximum(high, 0)[:, :, None] * np.maximum(wide, 0)[:, None, :]
