"""What a request did to the cache, in its answer: ``meta_info["agentserve"]``."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

KEY = "agentserve"


@dataclass(frozen=True)
class Outcome:
    """Of a request with pictures; counts are of slots in the KV pool, one a token."""

    reason: str | None = None
    """Why nothing left. None: what was to leave did."""
    freed: int = 0
    """Slots of tokens that left, and are free again. What others share stays theirs."""
    copied: int = 0
    """Tokens that others share and that were copied to change what follows them."""
    adopted: int = 0
    """Slots taken over from the tree, without moving anything."""
    pruned: int = 0
    """Slots that were free again before the answer began: of what a pruning dropped."""
    keeps: tuple[str, ...] = ()
    """Of each item to choose from, in order, the keep set that is left of it. None of them when
    nothing left at all: see ``reason``."""
    selected: tuple[str, ...] = ()
    """Of each item whose tokens were to be chosen from the vision encoder's output, in order, the
    keep set."""
    unchosen: str | None = None
    """Why a pruning, or an eviction by attention, was not done."""
    sources: tuple[str, ...] = ()
    """Of each picture of the prompt, in order, where its tokens came from: ``radix`` (their KV was
    in the prefix cache), ``device`` (SGLang's own cache of embeddings), ``memory`` or ``folder``
    (the feature cache), ``encoder``."""
    cut_items: int = 0
    """How often a chunk of the prompt ended inside a picture: such a picture is embedded twice."""
    prefill_flops: int | None = None
    """What the language model's layers took for the prompt, as engine.flops counts it. None: the
    worker does not count, or a part of the prompt shared a batch with other requests."""
    rebuilt: bool = False
    """Whether some of the KV that the answer came from was lost since it was made, and computed
    anew from what was left; not: it all remembers what left."""


def add_outcome(
    original: Callable[..., None],
    manager: Any,
    meta_info: dict[str, Any],
    state: Any,
    customized_info: dict[str, Any],
    index: int,
    finish_reason: Any,
) -> None:
    """AROUND TokenizerManager.update_request_meta_info.

    SGLang sends such values once a token, and to every request of a batch in which one has any.
    """
    others = {key: values for key, values in customized_info.items() if key != KEY}
    original(manager, meta_info, state, others, index, finish_reason)
    if KEY in customized_info:
        outcomes = [outcome for outcome in customized_info[KEY][index] if outcome is not None]
        if outcomes:
            meta_info[KEY] = outcomes[-1]
