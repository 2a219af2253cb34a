"""Where SGLang's scheduler decides how much of a prompt a batch takes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from agentserve.engine import compat_chunking as compat
from agentserve.engine.chunking.cut import WAIT, Room, chunk
from agentserve.engine.pruning.book import entry_of


def select_admission(original: Callable[..., Any], adder: Any, request: Any, **kwargs: Any) -> Any:
    """AROUND PrefillAdder._select_prefill_admission: of a request that is new to the batch.

    SGLang goes on with one unfinished prompt only. A chunk that ends early leaves room for others,
    which it has not with chunks of its own: those must then come whole.
    """
    verdict = _select(original, adder, request, **kwargs)
    unfinished = kwargs["has_chunked_req"] or adder.new_chunked_req is not None
    return compat.not_now() if unfinished and compat.is_chunked(verdict) else verdict


def _select(original: Callable[..., Any], adder: Any, request: Any, **kwargs: Any) -> Any:
    tokens = _tokens(adder, request, request.prefix_len + kwargs["host_hit_length"])
    if tokens is None:
        return original(adder, request, **kwargs)
    if tokens == WAIT:
        return compat.not_now()
    with compat.chunk_of(adder, tokens):
        return original(adder, request, **kwargs)


def add_chunked(original: Callable[..., Any], adder: Any, request: Any) -> Any:
    """AROUND PrefillAdder.add_chunked_req: of the request that goes on from the batch before."""
    tokens = _tokens(adder, request, request.prefix_len)
    if tokens is None:
        return original(adder, request)
    with compat.chunk_of(adder, tokens):
        return original(adder, request)


def _tokens(adder: Any, request: Any, prefix: int) -> int | None:
    """How many tokens the batch takes of it; None: as many as SGLang says."""
    pictures = compat.pictures(request)
    if adder.rem_chunk_tokens is None or not pictures:
        return None
    entry = entry_of(request)
    whole_from = entry.first if entry is not None and entry.looks and not entry.reason else None
    room = Room(adder.rem_chunk_tokens, compat.chunk_size(), first=not adder.can_run_list)
    return chunk(prefix, compat.length(request), pictures, whole_from, room)
