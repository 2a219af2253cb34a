"""Where SGLang's scheduler meets the pruning inside its model."""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from agentserve.engine import compat_pruning as compat
from agentserve.engine import flops
from agentserve.engine.pruning import forward
from agentserve.engine.pruning.book import entry_of
from agentserve.engine.pruning.targets import Chosen, Target, obstacle


@dataclass(eq=False)
class _Pass:
    """A forward pass with requests that give up tokens."""

    pools: compat.Pools
    targets: list[Target]
    chosen: list[Chosen] | None = None


_pass: ContextVar[_Pass | None] = ContextVar("pass", default=None)
_freed: list[tuple[compat.Pools, Tensor]] = []
"""Slots to give back once the pass that they are of is launched."""


def max_prefix(original: Callable[..., int], request: Any, length: int) -> int:
    """AROUND Req._compute_max_prefix_len: what is chosen must not depend on what the prefix cache
    has, so none of it is looked up."""
    limit = original(request, length)
    entry = entry_of(request)
    return limit if entry is None or not entry.looks else min(limit, entry.first)


def run_batch(
    original: Callable[..., Any], worker: Any, batch: Any, *args: Any, **kwargs: Any
) -> Any:
    """AROUND TpModelWorker.forward_batch_generation: lengths follow what the pass has dropped."""
    with flops.in_batch(batch):
        return _run(original, worker, batch, *args, **kwargs)


def _run(original: Callable[..., Any], worker: Any, batch: Any, *args: Any, **kwargs: Any) -> Any:
    targets = _targets(worker.model_runner, batch)
    if not targets:
        return original(worker, batch, *args, **kwargs)
    current = _Pass(compat.Pools(worker.model_runner), targets)
    token = _pass.set(current)
    try:
        result = original(worker, batch, *args, **kwargs)
    finally:
        _pass.reset(token)
    assert current.chosen is not None, "the model ran without its layers being run here"
    for target, chosen in zip(targets, current.chosen, strict=True):
        entry = entry_of(target.request)
        assert entry is not None
        entry.chosen = chosen
        if chosen.slots is not None:
            entry.shortened = compat.shorten(batch, target.index, target.request, len(chosen.slots))
            _freed.append((current.pools, chosen.slots))
    return result


def run_layers(
    original: Callable[..., Any],
    model: Any,
    input_ids: Tensor | None,
    positions: Tensor,
    forward_batch: Any,
    input_embeds: Tensor | None = None,
    pp_proxy_tensors: Any = None,
) -> Any:
    """AROUND Qwen2Model.forward."""
    with flops.counting():
        return _layers(
            original, model, input_ids, positions, forward_batch, input_embeds, pp_proxy_tensors
        )


def _layers(
    original: Callable[..., Any],
    model: Any,
    input_ids: Tensor | None,
    positions: Tensor,
    forward_batch: Any,
    input_embeds: Tensor | None,
    pp_proxy_tensors: Any,
) -> Any:
    current = _pass.get()
    if current is None:
        return original(model, input_ids, positions, forward_batch, input_embeds, pp_proxy_tensors)
    hidden = compat.embed(model, input_ids) if input_embeds is None else input_embeds
    stack = compat.Stack(model, positions, forward_batch, hidden, current.pools)
    current.chosen = forward.run(stack, current.targets)
    return stack.finish()


def free_dropped(_: Any, scheduler: Any, *__: Any, **___: Any) -> None:
    """AFTER Scheduler.run_batch, on the scheduler's stream: it hands slots out."""
    if _freed:
        compat.wait_for_forward(scheduler)
        for pools, slots in _freed:
            pools.free(slots)
        _freed.clear()


def take_back(_: Any, request: Any) -> None:
    """AFTER Req.reset_for_retract: its KV is gone, and its prompt is computed again with what it
    has answered so far behind it. That is computed with all tokens in sight."""
    entry = entry_of(request)
    if entry is not None:
        if entry.shortened is not None:
            entry.shortened.undo(request)
        entry.chosen = entry.shortened = None
        entry.reason = "its cache was taken away while it was answered"


def _targets(runner: Any, batch: Any) -> list[Target]:
    targets = []
    for index, (request, start, extent) in enumerate(compat.extents(batch) or ()):
        entry = entry_of(request)
        if entry is None or not entry.looks or entry.chosen is not None or entry.reason:
            continue
        if extent.end <= entry.first:
            continue  # a chunk of what comes before
        entry.reason = compat.unfit(runner) or obstacle(entry.change, extent)
        if entry.reason is None:
            targets.append(Target(request, index, start, extent, entry.change))
    return targets
