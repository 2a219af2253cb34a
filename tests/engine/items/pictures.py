"""Screens, items and prompts of the tests."""

from __future__ import annotations

import base64
import io
from collections.abc import Sequence

import numpy as np
from PIL import Image

from agentserve.core.item_urls import ItemMeta, TextAnchor, item_url, keep_set
from agentserve.core.plans import Box, Seal
from agentserve.core.screens import Size

GRID = 28
BEGIN, IMAGE, END = "<|vision_start|>", "<|image_pad|>", "<|vision_end|>"


def screen(seed: int, width: int = 224, height: int = 280) -> Image.Image:
    """Coloured blocks of 14 px."""
    blocks = np.random.default_rng(seed).integers(0, 256, (height // 14, width // 14, 3), np.uint8)
    return Image.fromarray(blocks).resize((width, height), Image.Resampling.NEAREST)


def png(image: Image.Image) -> str:
    """Base64 of a PNG."""
    buffer = io.BytesIO()
    image.save(buffer, "PNG")
    return base64.b64encode(buffer.getvalue()).decode()


def plain(image: Image.Image) -> str:
    """An ordinary picture's data URL."""
    return f"data:image/png;base64,{png(image)}"


def meta(
    image: Image.Image,
    box: tuple[int, int, int, int] | None = None,
    *,
    kept: Sequence[int] | None = None,
    base: int | None = None,
    time: int | None = None,
    seal: Seal | None = None,
    texts: Sequence[TextAnchor] = (),
) -> ItemMeta:
    """Metadata of a part of the screen ``image``; ``box`` is (x, y, width, height)."""
    x, y, width, height = box or (0, 0, *image.size)
    tokens = (width // GRID) * (height // GRID)
    return ItemMeta(
        screen=Size(width=image.width, height=image.height),
        box=Box(x=x, y=y, width=width, height=height),
        base=base,
        time=time,
        keep=None if kept is None else keep_set(np.asarray(kept), tokens),
        seal=seal,
        texts=list(texts),
    )


def item(image: Image.Image, box: tuple[int, int, int, int] | None = None, **fields) -> str:
    """The data URL of a part of the screen ``image``."""
    x, y, width, height = box or (0, 0, *image.size)
    return item_url(meta(image, box, **fields), png(image.crop((x, y, x + width, y + height))))
