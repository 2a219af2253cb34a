"""Counting what the language model's layers take for a prompt: ``agentserve worker --count-flops``.

torch's own counter (torch.utils.flop_counter) sees every operation, and counts those of matrix
products: two a multiplication with its addition. So the figure has the layers' projections, and
what a pruning looks at; it has no norms, no activations, and neither embeddings nor logits.

Attention counts as torch counts it: a full product of queries and keys, though half of it is
masked. SGLang's attention on a CPU (``torch_native``) also gives every token before the chunk a
query of no use, and these are computed, so they are counted. On a GPU attention is no operation of
torch's: there the figure is without it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch.utils.flop_counter import FlopCounterMode

from agentserve.engine.boot import boot_of
from agentserve.engine.compat_pruning import extents

_counts: WeakKeyDictionary[Any, int | None] = WeakKeyDictionary()
_alone: ContextVar[Any] = ContextVar("alone", default=None)


def of(request: Any) -> int | None:
    """What the request's prompt took; None when it was not counted, or not all of it alone."""
    return _counts.get(request)


@contextmanager
def in_batch(batch: Any) -> Iterator[None]:
    """What ``counting`` counts within is of the batch's request, if it is alone in it."""
    computed = extents(batch) if _asked() else None
    requests = [request for request, _, _ in computed or ()]
    if len(requests) > 1:
        _counts.update(dict.fromkeys(requests, None))
    token = _alone.set(requests[0] if len(requests) == 1 else None)
    try:
        yield
    finally:
        _alone.reset(token)


@contextmanager
def counting() -> Iterator[None]:
    """Count what runs within."""
    request = _alone.get()
    if request is None:
        yield
        return
    before = _counts.get(request, 0)
    with FlopCounterMode(display=False, custom_mapping=_ATTENTION) as counter:
        yield
    _counts[request] = None if before is None else before + counter.get_total_flops()


@cache
def _asked() -> bool:
    boot = boot_of()
    return boot is not None and boot.count_flops


def _attention(
    queries: Sequence[int],  # [batch, heads, rows, head size]
    keys: Sequence[int],  # [batch, kv heads, keys, head size]
    values: Sequence[int],
    *_: Any,
    **__: Any,
) -> int:
    """torch has no formula for its attention on a CPU."""
    batch, heads, rows, size = queries
    return 2 * batch * heads * rows * keys[2] * (size + values[3])


_ATTENTION = {torch.ops.aten._scaled_dot_product_flash_attention_for_cpu: _attention}
