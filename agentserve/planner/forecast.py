"""The cost of one prompt under several settings, beside the cost of leaving nothing out."""

from __future__ import annotations

from collections.abc import Iterable

from agentserve.core.errors import InvalidRequest
from agentserve.core.model import Wire
from agentserve.core.pruning import Compression
from agentserve.planner.cost import Cost, ModelShape, Prompt, cost_of


class Forecast(Wire):
    """One setting; ratios are to the same figure without it."""

    name: str
    prefill_flops: int
    """Of the language model's layers and of the choice, without the vision encoder."""
    flops_ratio: float
    visual_prefilled: int
    """Visual tokens with KV slots when the answer begins."""
    visual_kept: int
    """And once it is complete."""
    kv_bytes: int
    """Of the whole prompt when the answer begins."""
    kv_bytes_kept: int
    """And once it is complete, without the answer's own."""
    kv_kept_ratio: float


def forecasts(
    shape: ModelShape, prompt: Prompt, settings: Iterable[tuple[str, Compression]]
) -> list[Forecast]:
    """One for each of ``settings`` (name, what is left out), the first of which is what the others
    are compared with. Raises InvalidRequest for a prompt that cannot be."""
    if prompt.items < 1 or prompt.visual < prompt.items:
        raise InvalidRequest(
            f"{prompt.visual} visual tokens cannot be of {prompt.items} items",
            hint="each item has at least one token",
        )
    if not 1 <= prompt.voices <= prompt.text:
        raise InvalidRequest(
            f"{prompt.voices} tokens behind the last item, of {prompt.text} of text",
            hint="the answer needs at least one token of text behind the items",
        )
    costs = [
        (name, cost_of(shape, prompt, given.pruning, given.eviction)) for name, given in settings
    ]
    return [_forecast(name, cost, costs[0][1]) for name, cost in costs]


def _forecast(name: str, cost: Cost, base: Cost) -> Forecast:
    return Forecast(
        name=name,
        prefill_flops=cost.prefill_flops,
        flops_ratio=cost.prefill_flops / base.prefill_flops,
        visual_prefilled=cost.visual_prefilled,
        visual_kept=cost.visual_kept,
        kv_bytes=cost.kv_bytes,
        kv_bytes_kept=cost.kv_bytes_kept,
        kv_kept_ratio=cost.kv_bytes_kept / base.kv_bytes_kept,
    )
