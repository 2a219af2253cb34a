"""SGLang's private names about chunked prefill; ``compat.NAMES`` has their signatures.

Imports SGLang only where it is used: inside its processes, where all of it is loaded.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


def chunk_size() -> int:
    """Tokens of a whole chunk."""
    from sglang.srt.runtime_context import get_schedule

    return get_schedule().chunked_prefill_size


def length(request: Any) -> int:
    """Tokens that are to be computed before its next token: its prompt's, and after a retraction
    its answer's so far."""
    return len(request.full_untruncated_fill_ids)


def pictures(request: Any) -> list[tuple[int, int]]:
    """Spans [start, end) of the pictures of a request's prompt, ascending."""
    inputs = request.multimodal_inputs
    items = inputs.mm_items if inputs is not None else ()
    spans = [(first, last + 1) for item in items for first, last in item.offsets or ()]
    return sorted(span for span in spans if span[1] - span[0] > 1)


def not_now() -> Any:
    """The verdict on a request that has to wait for the next batch."""
    from sglang.srt.managers.schedule_policy import AddReqResult

    return AddReqResult.OTHER


def is_chunked(verdict: Any) -> bool:
    """Whether it lets a request begin, but not with all of its prompt. Nothing is done yet."""
    from sglang.srt.managers.schedule_policy import AddReqResult

    return not isinstance(verdict, AddReqResult) and verdict.is_chunked


@contextmanager
def chunk_of(adder: Any, tokens: int) -> Iterator[None]:
    """Have SGLang take ``tokens`` of the next request, whatever the batch has left."""
    left = adder.rem_chunk_tokens
    adder.rem_chunk_tokens = tokens
    try:
        yield
    finally:
        adder.rem_chunk_tokens += left - tokens
