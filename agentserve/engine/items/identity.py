"""What makes a token's KV: the identities of items and of sealed text.

SGLang's radix tree knows a picture's tokens by sentinels derived from the picture's hash. A token's
KV depends on everything before it, which is in the key already, and on the token's embedding and
position: whatever of these does not follow from pixels and tokens goes into an identity. So no two
different prompts share a key, and equal ones do.
"""

from __future__ import annotations

import hashlib
import json
from typing import Any

from agentserve.core.plans import Seal
from agentserve.engine.items.layout import Picture, SealedText, Span


def item_identity(content: str, picture: Picture, span: Span) -> bytes:
    """SHA-256 of an item that is no ordinary image; ``content`` stands for pixels and patches."""
    return _digest(
        "item",
        content,
        _merged(picture),
        picture.screen,
        picture.box,
        span.base,
        span.time,
        _kept(picture),
        _sealed(picture.seal),
    )


def text_identity(text: SealedText) -> bytes:
    """SHA-256 of a sealed text token."""
    return _digest("text", text.token, text.position, _sealed(text.seal))


def item_embedding(content: str, picture: Picture) -> int:
    """64 bits that stand for an item's embeddings: they do not depend on where it is."""
    return _head(_digest("embedding", content, _merged(picture), _kept(picture)))


def text_embedding(text: SealedText) -> int:
    """64 bits that stand for a text token's embedding."""
    return _head(_digest("token", text.token))


def _kept(picture: Picture) -> list[int] | None:
    return None if picture.kept is None else picture.kept.tolist()


def _merged(picture: Picture) -> list[object] | None:
    """What made the embeddings others than the encoder's rows."""
    selection = picture.selection
    if selection is None or selection.pruning.method != "tome":
        return None
    return [selection.pruning.model_dump(mode="json"), selection.sent]


def _sealed(seal: Seal | None) -> str | None:
    return None if seal is None else seal.history


def _digest(*parts: Any) -> bytes:
    text = json.dumps(["agentserve-1", *parts], separators=(",", ":"))
    return hashlib.sha256(text.encode()).digest()


def _head(digest: bytes) -> int:
    return int.from_bytes(digest[:8], "big")
