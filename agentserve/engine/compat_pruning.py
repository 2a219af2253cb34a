"""SGLang's private names about leaving tokens out while a model runs; ``compat.NAMES`` has them.

Imports SGLang only where it is used: inside its processes, where all of it is loaded.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from agentserve.engine.pruning.targets import Extent


@dataclass(frozen=True)
class Pools:
    """Where a worker keeps the KV of its requests."""

    runner: Any

    def keys(self, layer: int) -> Tensor:
        """[slots, kv heads, head size]"""
        return self.runner.token_to_kv_pool.get_key_buffer(layer)

    def slots(self, request: Any, length: int) -> Tensor:
        """The slots of the request's first tokens, int32 [length]; a view."""
        return self.runner.req_to_token_pool.req_to_token[request.kv.req_pool_idx, :length]

    def set_slots(self, request: Any, start: int, slots: Tensor) -> None:
        """Have the request's tokens from ``start`` on be those in ``slots``."""
        where = (request.kv.req_pool_idx, slice(start, start + len(slots)))
        self.runner.req_to_token_pool.write(where, slots.int())

    def free(self, slots: Tensor) -> None:
        """Give slots back that are a request's own, and no longer in its row."""
        self.runner.token_to_kv_pool_allocator.free(slots)


def unfit(runner: Any) -> str | None:
    """Why a worker cannot prune inside its model; None when it can."""
    from sglang.srt.runtime_context import get_disagg, get_memory, get_parallel, get_spec

    model = getattr(runner.model, "model", None)
    reasons = {
        "the model is none of Qwen2's": type(model).__name__ != "Qwen2Model",
        f"the page size is {runner.page_size}, not 1": runner.page_size != 1,
        "the model's cache is not of attention alone": runner.is_hybrid_swa,
        "the cache has a second tier": get_memory().enable_hisparse
        or get_memory().enable_hierarchical_cache,
        "decoding is speculative": get_spec().speculative_algorithm is not None,
        "prefill and decoding are apart": get_disagg().disaggregation_mode != "null",
        "the model is split over several devices": get_parallel().tp_size > 1
        or get_parallel().pp_size > 1
        or get_parallel().dp_size > 1,
    }
    return next((reason for reason, holds in reasons.items() if holds), None)


def extents(batch: Any) -> list[tuple[Any, int, Extent]] | None:
    """(Request, its first row, what is computed of its prompt) for each request of a batch; None
    for one that computes no prompts."""
    if batch is None or not batch.forward_mode.is_extend_without_speculative():
        return None
    found, start = [], 0
    for request, prefix, rows in zip(batch.reqs, batch.prefix_lens, batch.extend_lens, strict=True):
        found.append((request, start, Extent(prefix, rows)))
        start += rows
    return found


@dataclass(frozen=True)
class Shortened:
    """What a request's pictures were like before tokens of them left."""

    positions: Tensor
    delta: Tensor
    offsets: list[list[tuple[int, int]]]

    def undo(self, request: Any) -> None:
        inputs = request.multimodal_inputs
        inputs.mrope_positions, inputs.mrope_position_delta = self.positions, self.delta
        inputs.mrope_position_delta_repeated_cache = None
        for item, offsets in zip(inputs.mm_items, self.offsets, strict=True):
            item.offsets = offsets


def shorten(batch: Any, index: int, request: Any, count: int) -> Shortened:
    """``count`` tokens of the prompt of a batch's request are gone: its lengths follow, and its
    positions and items as far as the answer asks for them. What is aliased is replaced.

    Which tokens they are only the device knows. The answer's positions come from the delta once
    there are none for the prompt, and no item is embedded again that ends before the answer.
    """
    request.kv.kv_committed_len -= count
    request.kv.kv_allocated_len -= count
    lengths = batch.seq_lens_cpu.clone()
    lengths[index] -= count
    batch.seq_lens_cpu = lengths
    batch.seq_lens = lengths.to(batch.seq_lens.device, non_blocking=True)
    batch.seq_lens_sum = int(lengths.sum())
    inputs = request.multimodal_inputs
    before = Shortened(
        inputs.mrope_positions,
        inputs.mrope_position_delta,
        [item.offsets for item in inputs.mm_items],
    )
    inputs.mrope_positions = inputs.mrope_positions[:, :0]
    inputs.mrope_position_delta = inputs.mrope_position_delta + count
    inputs.mrope_position_delta_repeated_cache = None
    last = int(lengths[index]) - 1
    for item in inputs.mm_items:
        item.offsets = [(min(start, last), min(end, last)) for start, end in item.offsets]
    return before


def items_of(request: Any) -> Iterator[Any]:
    """The pictures and sealed texts of a request's prompt."""
    inputs = request.multimodal_inputs
    yield from inputs.mm_items if inputs is not None else ()


class Stack:
    """The layers of a Qwen2 model over one batch, out of which rows can leave between two layers.

    ``batch`` is the batch as the model runs it: what is replaced in it is this forward's own.
    """

    def __init__(
        self, model: Any, positions: Tensor, batch: Any, hidden: Tensor, pools: Pools
    ) -> None:
        from sglang.srt.layers.layer_boundary.residual import batch as residual

        self._model = model
        self._batch = batch
        self._residual = residual
        self._hidden = hidden
        self._handoff: Any = None
        self._queries: dict[int, Tensor] = {}
        self.pools = pools
        self.positions = positions
        """int64 [3, rows]"""
        residual.start(batch)

    @property
    def depth(self) -> int:
        return len(self._model.layers)

    @property
    def embeddings(self) -> Tensor:
        """What goes into the first layer, [rows, width]; before it has run."""
        return self._hidden

    def run(self, layer: int, *, with_queries: bool) -> None:
        """Run a layer; ``with_queries``: keep the queries of its attention."""
        module = self._model.layers[layer]
        hook = None
        self._queries.clear()
        if with_queries:

            def keep(_: Any, arguments: tuple[Any, ...]) -> None:
                self._queries[layer] = arguments[0]

            hook = module.self_attn.attn.register_forward_pre_hook(keep)
        try:
            self._hidden = module(self.positions, self._hidden, self._batch, capture_output=None)
        finally:
            if hook is not None:
                hook.remove()

    def queries(self, layer: int) -> Tensor:
        """Of the layer that ran last, [rows, heads, head size], rotated."""
        attention = self._model.layers[layer].self_attn
        return self._queries[layer].view(-1, attention.num_heads, attention.head_dim)

    def scale(self, layer: int) -> float:
        return self._model.layers[layer].self_attn.scaling

    def pause(self) -> None:
        """Hold the rows between two layers: their states can be looked at, and they can leave."""
        hidden = self._residual.complete_output(self._hidden, self._batch)
        self._handoff = self._residual.export_replay_handoff(hidden, self._batch)

    def states(self) -> Tensor:
        """While paused: what the next layer reads, [rows, width]."""
        value, residual = self._handoff.value, self._handoff.residual
        return value if residual is None else value + residual

    def next_queries(self, layer: int) -> Tensor:
        """While paused before ``layer``: the queries that it will make, [rows, heads, head size].
        Its keys are in the pool then, as they will be."""
        from sglang.srt.mem_cache.memory_pool import KVWriteLoc

        module = self._model.layers[layer]
        attention = module.self_attn
        projected, _ = attention.qkv_proj(module.input_layernorm(self.states()))
        sizes = [attention.q_size, attention.kv_size, attention.kv_size]
        q, k, v = projected.split(sizes, dim=-1)
        q, k = attention.rotary_emb(self.positions, q, k)
        k, v = (each.view(-1, attention.num_kv_heads, attention.head_dim) for each in (k, v))
        self.pools.runner.token_to_kv_pool.set_kv_buffer(
            attention.attn, KVWriteLoc(self._batch.out_cache_loc, None), k, v
        )
        return q.view(-1, attention.num_heads, attention.head_dim)

    def replace(self, rows: Tensor, states: Tensor) -> None:
        """While paused: have the rows, int64 [n], go on with other states, [n, width]."""
        value, residual = self._handoff.value.clone(), self._handoff.residual
        value[rows] = states.to(value.dtype)
        if residual is not None:
            residual = residual.clone()
            residual[rows] = 0
        self._handoff = self._handoff._replace(value=value, residual=residual)

    def drop(self, left: Tensor, counts: dict[int, int]) -> Tensor:
        """While paused: only the rows ``left`` (int64, ascending) go on; ``counts``: how many rows
        of each request of the batch are gone. Returns the slots of the rows that are left."""
        batch, handoff = self._batch, self._handoff
        residual = None if handoff.residual is None else handoff.residual[left]
        self._handoff = handoff._replace(value=handoff.value[left], residual=residual)
        self.positions = self.positions[:, left]
        batch.positions = batch.positions[left]
        batch.mrope_positions = self.positions
        batch.out_cache_loc = batch.out_cache_loc[left]
        gone = torch.zeros_like(batch.seq_lens_cpu)
        for index, count in counts.items():
            gone[index] = count
        batch.seq_lens_cpu = batch.seq_lens_cpu - gone
        batch.seq_lens_sum = int(batch.seq_lens_cpu.sum())
        rows = [
            length - int(count)
            for length, count in zip(batch.extend_seq_lens_cpu, gone.tolist(), strict=True)
        ]
        batch.extend_seq_lens_cpu = rows
        batch.extend_num_tokens = sum(rows)
        gone = gone.to(batch.seq_lens.device, non_blocking=True)
        batch.seq_lens = batch.seq_lens - gone
        batch.extend_seq_lens = batch.extend_seq_lens - gone.to(batch.extend_seq_lens.dtype)
        ends = torch.cumsum(batch.extend_seq_lens, dim=0)
        batch.extend_start_loc = (ends - batch.extend_seq_lens).to(batch.extend_start_loc.dtype)
        return batch.out_cache_loc

    def resume(self, *, dropped: bool) -> None:
        """Let the rows go on; ``dropped``: their slots are in their requests' rows again."""
        if dropped:
            from sglang.srt.model_executor.forward_context import get_attn_backend

            batch, translator = self._batch, self.pools.runner.kv_index_translator
            translator.own_plan(batch).bind(batch, translator)
            get_attn_backend().init_forward_metadata(batch)
        self._hidden = self._residual.import_replay_handoff(self._handoff, self._batch)
        self._handoff = None

    def finish(self) -> Tensor:
        """The normalised output, [rows, width]."""
        return self._residual.final_norm(
            self._hidden, self._batch, self._model.norm, skip_empty=True
        )


def embed(model: Any, input_ids: Tensor) -> Tensor:
    """[rows, width]"""
    return model.embed_tokens(input_ids)


def wait_for_forward(scheduler: Any) -> None:
    """Have what the scheduler does next with tensors of the forward run behind it."""
    if scheduler.device != "cpu":
        scheduler.schedule_stream.wait_stream(scheduler.forward_stream)
