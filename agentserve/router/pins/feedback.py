"""What a worker found of a session's prompt, against what it should have had. Pure."""

from __future__ import annotations

from agentserve.core.sessions import CacheLoss, LossReason, Pin, Usage


def loss_of(pin: Pin, usage: Usage, *, moved_prefix: bool) -> CacheLoss | None:
    """What a turn on ``pin`` computed again though a worker had held it; None when nothing.

    ``moved_prefix``: the prompt is declared not to extend the last one, so that nothing of the
    last one was to be found beyond what happens to be the same.
    """
    expected = pin.expected_cached_tokens if moved_prefix else usage.stored_prefix_tokens
    if usage.cached_tokens >= expected:
        return None
    return CacheLoss(
        reason=_reason(pin, moved_prefix),
        expected_tokens=expected,
        found_tokens=usage.cached_tokens,
    )


def _reason(pin: Pin, moved_prefix: bool) -> LossReason:
    if moved_prefix:
        return "prefix_moved"
    if pin.moved is None or pin.expected_cached_tokens:
        return "evicted"  # it was here
    return "restarted" if pin.moved == "restarted" else "moved"
