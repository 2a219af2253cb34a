"""What a visual item carries with it into the scheduler, beside pixels and sentinels.

SGLang sends an item's ``model_specific_data`` along as it is, as long as it holds plain values. On
a request in the scheduler the items are ``req.multimodal_inputs.mm_items``: each with its span
(``offsets``), its ``identity`` and, read by ``carried_of``, the rest.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import Any

KEY = "agentserve"
SOURCE_KEY = "agentserve-source"


@dataclass(frozen=True)
class Carried:
    """Of an item with metadata, or of a text token that is sealed (then ``token`` is set)."""

    content: str = ""
    """SHA-256 of the pixels as the vision encoder gets them; empty for text."""
    screen: tuple[int, int] = (1, 1)
    """Rows and columns of the whole screen, in tokens."""
    box: tuple[int, int, int, int] = (0, 0, 1, 1)
    """First row, first column, rows, columns."""
    base: int = 0
    time: int = 0
    kept: tuple[int, ...] | None = None
    """Indices of the tokens that are in the sequence. None: all."""
    selection: str | None = None
    """JSON of core.plans.Selection. None: the tokens are as they are sent."""
    selected: bool = False
    """Whether ``kept`` was chosen here, when the request came."""
    history: str | None = None
    """The seal's. None: not sealed."""
    token: int | None = None

    def pack(self) -> dict[str, Any]:
        """Plain values for ``model_specific_data``."""
        return {KEY: asdict(self)}


def carried_of(item: Any) -> Carried | None:
    """What SGLang's MultimodalDataItem carries; None for an ordinary image."""
    packed = item.model_specific_data.get(KEY)
    if packed is None:
        return None
    carried = Carried(**packed)
    # tuples come out of the transport as lists
    return replace(
        carried,
        screen=tuple(carried.screen),
        box=tuple(carried.box),
        kept=None if carried.kept is None else tuple(carried.kept),
    )


def set_source(item: Any, source: str) -> None:
    """Remember, on the item, where its embeddings came from when they were first asked for."""
    item.model_specific_data.setdefault(SOURCE_KEY, source)


def source_of(item: Any) -> str | None:
    """``encoder``, or the tier of the feature cache; None when nobody asked for them here."""
    return item.model_specific_data.get(SOURCE_KEY)
