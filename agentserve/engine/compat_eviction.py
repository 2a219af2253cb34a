"""SGLang's private names about the prefix cache; ``compat.NAMES`` has their signatures.

Imported in the scheduler's process only, when it builds its cache.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import torch
from sglang.srt.managers.schedule_batch import FINISH_ABORT, Modality, MultimodalDataItem
from sglang.srt.mem_cache.base_prefix_cache import EvictParams, MatchPrefixParams, MatchResult
from sglang.srt.mem_cache.common import _req_radix_key
from sglang.srt.mem_cache.memory_pool import MHATokenToKVPool, move_kv_cache_native
from sglang.srt.mem_cache.radix_cache import RadixKey
from sglang.srt.mem_cache.registry import create_unified_radix_cache, default_radix_cache_factory
from sglang.srt.mem_cache.unified_cache.component_type import ComponentType
from sglang.srt.mem_cache.unified_radix_cache import UnifiedRadixCache
from sglang.srt.runtime_context import get_disagg, get_memory, get_spec

from agentserve.kernels import merge_kv


class Tree(UnifiedRadixCache):
    """SGLang's prefix tree, with the steps that an eviction is made of.

    A request's row says in which slot of the KV pool each of its tokens is. Of its first
    ``tree_owned`` tokens the slots are the tree's, behind them they are the request's.
    """

    forward_stream: Any = None
    """The stream on which the model runs, on a device that has streams."""

    def unfit(self) -> str | None:
        """Why slots cannot be taken out of this tree; None when they can."""
        if self.page_size != 1:
            return f"the page size is {self.page_size}, not 1"
        return self.foreign()

    def foreign(self) -> str | None:
        """Why whole nodes of this tree are not to be taken out of it; None when they may."""
        memory = get_memory()
        reasons = {
            "the prefix cache is off": self.disable,
            "the model's cache is not of attention alone": self.tree_components
            != (ComponentType.FULL,),
            "the cache has a second tier": self.cache_controller is not None
            or self.linker is not None
            or memory.enable_hisparse,
            "decoding is speculative": get_spec().speculative_algorithm is not None,
            "prefill and decoding are apart": get_disagg().disaggregation_mode != "null",
            "the worker is one of several stages": self.pp_size > 1,
            "SGLang's sessions hold the cache": self.enable_session_radix_cache,
        }
        return next((reason for reason, holds in reasons.items() if holds), None)

    def match_as(self, params: MatchPrefixParams, key: array[int]) -> MatchResult:
        """``match_prefix`` with other ids."""
        return super().match_prefix(replace(params, key=self._named(params.key, key)))

    def touch_as(self, asked: RadixKey, key: array[int]) -> None:
        """``touch_prefix`` with other ids."""
        self.touch_prefix(self._named(asked, key))

    def publish_as(self, req: Any, key: array[int], prompt: int, up_to: int) -> None:
        """``checkpoint`` with other ids, the first ``prompt`` of them the prompt's.

        Does nothing when the tree owns that much already.
        """
        if up_to <= req.kv.cache_protected_len:
            return
        ids, origin = req.full_untruncated_fill_ids, req.origin_input_ids
        req.full_untruncated_fill_ids, req.origin_input_ids = key, key[:prompt]
        try:
            super().checkpoint(req, up_to=up_to)
        finally:
            req.full_untruncated_fill_ids, req.origin_input_ids = ids, origin

    def wait_for_model(self) -> None:
        """Have what comes now run behind what the model runs.

        That may be one more token of a request whose answer is complete: it reads the request's
        row, and its KV is the last token's. Slots that have just become free may be written to.
        """
        if self.forward_stream is not None:
            stream = torch.get_device_module(self.device).current_stream()
            stream.wait_stream(self.forward_stream)

    def row(self, req: Any, length: int) -> torch.Tensor:
        """The slots of the request's first tokens, int64 [length], a copy."""
        row = self.req_to_token_pool.req_to_token[req.kv.req_pool_idx, :length]
        return row.to(dtype=torch.int64, copy=True)

    def replace_row(self, req: Any, slots: torch.Tensor, tree_owned: int) -> None:
        """From now on the request's tokens are those in ``slots``."""
        self.req_to_token_pool.write((req.kv.req_pool_idx, slice(0, len(slots))), slots.int())
        own(req, tree_owned)

    def adopt(self, req: Any, down_to: int, at_least: int) -> None:
        """Take slots behind token ``down_to`` out of the tree, and give them to the request.

        Whole nodes, from the request's end up, as long as no other request holds them, no other
        sequence continues them and they are not among the first ``at_least`` tokens.
        """
        core, lock = self.tree_core, req.lock
        held = self.protected_size()
        self.unlock(lock)
        alone = held - self.protected_size()
        own_from = max(at_least, tree_owned(req) - alone)
        left, children = lock.node, 0
        for node in reversed(core.collect_path_info([lock.node])[0]):
            taken = node.path_end <= down_to or node.path_start < own_from
            if taken or node.num_children != children:
                break
            result = core.evict_device_leaf(node.node_id, self.is_write_back)
            result.device_frees.clear()  # they are in the request's row, and now its own
            self._apply_eviction_result(result)
            own(req, node.path_start)
            left, children = node.parent_id, 1
        req.lock = self.lock(left)
        req.last_node = left

    def release_path(
        self, key: array[int], salt: str | None, extra: str | None, down_to: int
    ) -> int:
        """Free the slots of ``key`` behind its first ``down_to`` tokens: how many tokens are left.

        From its end up, as long as no request holds them and no other sequence continues them.
        """
        down_to += -down_to % self.page_size
        if 0 < down_to < len(key):
            self._find(key[:down_to], salt, extra)  # parts the node in which it lies
        found = self._find(key, salt, extra)
        left, end, children = found.device_prefix_len, found.last_device_node, 0
        if left <= down_to:
            return left
        held, lock = self.protected_size(), self.lock(end)
        own_from = max(down_to, left - (self.protected_size() - held))
        self.unlock(lock)
        for node in reversed(self.tree_core.collect_path_info([end])[0]):
            if node.path_start < own_from or node.num_children != children:
                break
            result = self.tree_core.evict_device_leaf(node.node_id, self.is_write_back)
            self._apply_eviction_result(result)
            left, children = node.path_start, 1
        return left

    def can_copy(self) -> bool:
        """Whether the pool is one whose slots are rows of K and V buffers."""
        pool = self.token_to_kv_pool_allocator.get_kvcache()
        return type(pool) is MHATokenToKVPool and not pool.use_hnd

    def copied(self, slots: torch.Tensor) -> torch.Tensor | None:
        """Fresh slots with the KV of ``slots``, int64; None when there is no room."""
        allocator = self.token_to_kv_pool_allocator
        missing = len(slots) - allocator.available_size()
        if missing > 0:
            self.evict(EvictParams(num_tokens=missing))
        fresh = allocator.alloc(len(slots))
        if fresh is None:
            return None
        pool = allocator.get_kvcache()
        move_kv_cache_native(pool.k_buffer, pool.v_buffer, fresh, slots)
        return fresh

    def merge(self, dropped: torch.Tensor, kept: torch.Tensor) -> None:
        """Merge the KV in the slots ``dropped`` into that in ``kept``, in all layers."""
        pool = self.token_to_kv_pool_allocator.get_kvcache()
        merge_kv(pool.k_buffer, pool.v_buffer, dropped, kept)

    def free(self, slots: torch.Tensor) -> None:
        """Give slots back that are the request's own, and no longer in its row."""
        self.token_to_kv_pool_allocator.free(slots)

    def _find(self, key: array[int], salt: str | None, extra: str | None) -> MatchResult:
        asked = RadixKey(key, extra, cache_salt=salt)
        return super().match_prefix(MatchPrefixParams(key=asked))

    @staticmethod
    def _named(asked: RadixKey, key: array[int]) -> RadixKey:
        return RadixKey(
            key, asked.extra_key, asked.is_bigram, limit=asked.limit, cache_salt=asked.cache_salt
        )


def waiting_key(req: Any, tree: Tree) -> RadixKey:
    """What a request that waits is looked up as."""
    return _req_radix_key(tree, req, req.origin_input_ids + req.output_ids)


def build(context: Any, cache: type[Tree]) -> Any:
    """A factory of ``register_radix_cache_backend``: the stock cache where it has to be another."""
    memory = get_memory()
    if memory.enable_lmcache or memory.enable_flexkv or context.full_tokens_per_layer == 0:
        return default_radix_cache_factory(context)
    tree = create_unified_radix_cache(context, cache_class=cache)
    runner = context.tp_worker.model_runner
    if runner.device != "cpu":
        tree.forward_stream = runner.forward_stream
    return tree


def tree_owned(req: Any) -> int:
    """How many of the request's first slots are the tree's."""
    return req.kv.cache_protected_len


def own(req: Any, length: int) -> None:
    """Have the tree own the first ``length`` slots of the row, and the request the others."""
    req.kv.cache_protected_len = length
    req.kv.cache_inserted_len = min(req.kv.cache_inserted_len, length)


def disown(req: Any, length: int) -> None:
    """Have none of the row's first ``length`` slots freed when the request gives its row back."""
    req.kv.cache_protected_len = length


def items_of(req: Any) -> Iterator[tuple[int, Any]]:
    """(Index of the last token, item) of each picture and sealed text of a request's prompt."""
    inputs = req.multimodal_inputs
    for item in inputs.mm_items if inputs is not None else ():
        if item.offsets:
            yield item.offsets[-1][1], item


def session_of(req: Any) -> str | None:
    """The session that a request names; SGLang itself makes nothing of it."""
    return req.session_id


def namespace_of(req: Any) -> tuple[str | None, str | None]:
    """The salt and the extra key under which a request's prompt is in the tree."""
    return req.cache_salt, req.extra_key


def found_tokens(req: Any) -> int:
    """How many of the prompt's first tokens the prefix cache had when the request began."""
    return req.cached_tokens


def plain_ids(req: Any, length: int) -> array[int]:
    """The ids of a request's first tokens as it runs."""
    return req.full_untruncated_fill_ids[:length]


def prompt_length(req: Any) -> int:
    """Tokens of the prompt."""
    return len(req.origin_input_ids)


def answer_end(req: Any) -> int:
    """Tokens of the prompt and its answer."""
    return len(req.origin_input_ids) + len(req.output_ids_through_stop)


def aborted(req: Any) -> bool:
    """Whether a request ended before its answer did."""
    return isinstance(req.finished_reason, FINISH_ABORT)


def report(req: Any, key: str, value: dict[str, Any]) -> None:
    """Send ``value`` along with each of the answer's tokens, so that the last chunk has it."""
    info = req.customized_info or {}
    req.customized_info = {**info, key: [value] * len(req.output_ids)}


def sentinels(identity: bytes, count: int) -> list[int]:
    """SGLang's ids of ``count`` tokens of an item with ``identity`` (32 bytes)."""
    item = MultimodalDataItem(modality=Modality.IMAGE)
    item.set_identity(identity)
    return item.padding_sequence(count)
