"""In the scheduler's process: which sessions are over, and what of them may leave the cache."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from agentserve.core.workers import KvRelease, KvReleased
from agentserve.engine import compat_release as compat
from agentserve.engine.eviction.cache import EvictingCache


def answer_release(original: Callable[..., Any], scheduler: Any, message: Any) -> Any:
    """AROUND Scheduler.handle_dumper_control, between two of the scheduler's steps."""
    asked = compat.release_in(message)
    if asked is None:
        return original(scheduler, message)
    tree = scheduler.tree_cache
    released = KvReleased()
    if isinstance(tree, EvictingCache) and tree.foreign() is None:
        released = release(tree, compat.requests_of(scheduler), KvRelease.model_validate(asked))
    return compat.answer(released.model_dump())


def release(tree: EvictingCache, requests: list[Any], asked: KvRelease) -> KvReleased:
    """``requests`` are all that wait or run."""
    owners = {tree.owner_of(request) for request in requests}
    running = [one.id for one in asked.sessions if one.id in owners]
    over = [one for one in asked.sessions if one.id not in owners]
    freed = sum(tree.release(one.id, keep=one.keep, forked=one.forked) for one in over)
    return KvReleased(freed_tokens=freed, running=running)
