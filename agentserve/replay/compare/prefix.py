"""Whether each turn's prompt extends the last one's, and what KV cache a turn ran on. Pure."""

from __future__ import annotations

from agentserve.core.sessions import TurnResult
from agentserve.replay.compare.difference import Difference

_EXPLAINED = {"restarted", "moved"}
"""The worker is a new one: that nothing was there says nothing of the prompt."""


def prefix_differences(recorded: TurnResult | None, replayed: TurnResult) -> list[Difference]:
    """A turn of which the worker found less than it holds of the session's earlier turns, though
    the prompt is not declared to have moved (``move``) and the worker is still the same.

    Holds for every turn, the first as well: it has nothing that could be missing. It is a promise
    of the replay alone; ``recorded`` only says whether the recording broke it, too.
    """
    usage, loss = replayed.usage, replayed.loss
    if replayed.move is not None or usage.cached_tokens >= usage.stored_prefix_tokens:
        return []
    if loss is not None and loss.reason in _EXPLAINED:
        return []
    missing = usage.stored_prefix_tokens - usage.cached_tokens
    return [
        Difference(
            comparer="prefix",
            field="prefix",
            recorded=recorded and recorded.usage.cached_tokens,
            replayed=usage.cached_tokens,
            message=f"{missing:,} of the {usage.stored_prefix_tokens:,} tokens of the turns before "
            "were computed again: the prompt does not extend the last one and does not say so, or "
            "the worker had to evict it",
        )
    ]


def cache_notes(recorded: TurnResult, replayed: TurnResult) -> list[str]:
    """What of a turn's cache makes a difference explainable, in sentences.

    A turn that was rebuilt computed live tokens anew whose KV had seen more; its answer is to be
    compared with a rebuilt turn's alone: see ``comparable``.
    """
    notes = []
    if not comparable(recorded, replayed):
        was, now = (
            "from the live tokens alone" if turn.rebuilt else "on the KV cache as it was"
            for turn in (recorded, replayed)
        )
        notes.append(
            f"turn {recorded.turn} was answered {was}, now {now}: its answers are not compared"
        )
    loss = replayed.loss
    if loss is not None and loss.reason in _EXPLAINED:
        notes.append(
            f"turn {recorded.turn} computed {loss.tokens:,} tokens again: the session's worker "
            f"was {'restarted' if loss.reason == 'restarted' else 'another one'}"
        )
    return notes


def comparable(recorded: TurnResult, replayed: TurnResult) -> bool:
    """Whether both were rebuilt, or neither."""
    return recorded.rebuilt == replayed.rebuilt
