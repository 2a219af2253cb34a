"""The plugin: SGLang calls ``register`` in each of its processes through the entry point.

In a process that ``agentserve worker`` did not start it does nothing. In one that it did start,
SGLang must be the release and have the names that the plugin was written for; if not, the process
ends with one line. SGLang itself only logs a plugin that fails and serves on without it.
"""

from __future__ import annotations

import multiprocessing
import os
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import Any, NoReturn

from agentserve.core.errors import EngineMismatch
from agentserve.engine.boot import CACHE, boot_of

EXIT_MISMATCH = 3


@dataclass(frozen=True)
class Hook:
    """One function of SGLang that the plugin changes."""

    target: str
    kind: str
    """before, after, around or replace."""
    function: Callable[..., Any]
    signature: str
    """The target's parameters, without annotations."""
    server_only: bool = False
    """Only in the HTTP server's process, not in the scheduler's and the detokenizer's."""


def add_routes(_: None, state: Any) -> None:
    """AFTER http_server.set_global_state: the engine runs, the app does not listen yet."""
    from agentserve.engine import compat, compat_release
    from agentserve.engine.release.routes import release_routes
    from agentserve.engine.report import report_routes, worker_report

    verify_hooks()
    boot = boot_of()
    assert boot is not None, "register() runs only with a boot"
    try:
        facts = compat.server_facts(state)
    except EngineMismatch as error:
        _stop(error)
    hooks = [(hook.target, hook.kind) for hook in HOOKS]
    if facts.cache == CACHE:
        hooks.append((compat.CACHE_TARGET, "register"))
    report = worker_report(boot, facts, compat.SGLANG_VERSION, hooks)
    app = compat.http_app()
    app.include_router(report_routes(report, facts.tokenizer_json))
    if report.releases:
        app.include_router(
            release_routes(partial(compat_release.send_release, state.tokenizer_manager))
        )


def before_publish(*_: Any, **__: Any) -> None:
    """BEFORE runtime_context.publish: each process calls it right after it loaded its plugins."""
    verify_hooks()


def refuse_unfit(manager: Any, request: Any) -> None:
    """BEFORE TokenizerManager._tokenize_one_request."""
    from agentserve.engine.items import process

    process.refuse_unfit(manager, request)


async def process_items(*args: Any, **kwargs: Any) -> Any:
    """AROUND QwenVLImageProcessor.process_mm_data_async."""
    from agentserve.engine.items import process

    return await process.process_items(*args, **kwargs)


def select_tokens(*args: Any, **kwargs: Any) -> Any:
    """AROUND Scheduler._get_multimodal_inputs."""
    from agentserve.engine.items import features

    return features.select_tokens(*args, **kwargs)


def embed_items(*args: Any, **kwargs: Any) -> Any:
    """AROUND mm_schedule.get_embedding_and_mask."""
    from agentserve.engine.items import features

    return features.embed_items(*args, **kwargs)


def add_outcome(*args: Any, **kwargs: Any) -> None:
    """AROUND TokenizerManager.update_request_meta_info."""
    from agentserve.engine.eviction import outcome

    outcome.add_outcome(*args, **kwargs)


def max_prefix(*args: Any, **kwargs: Any) -> int:
    """AROUND Req._compute_max_prefix_len."""
    from agentserve.engine.pruning import hooks

    return hooks.max_prefix(*args, **kwargs)


def count_cuts(*args: Any, **kwargs: Any) -> None:
    """BEFORE TpModelWorker.forward_batch_generation."""
    from agentserve.engine.chunking import count

    count.count_cuts(*args, **kwargs)


def run_batch(*args: Any, **kwargs: Any) -> Any:
    """AROUND TpModelWorker.forward_batch_generation."""
    from agentserve.engine.pruning import hooks

    return hooks.run_batch(*args, **kwargs)


def run_layers(*args: Any, **kwargs: Any) -> Any:
    """AROUND Qwen2Model.forward."""
    from agentserve.engine.pruning import hooks

    return hooks.run_layers(*args, **kwargs)


def free_dropped(*args: Any, **kwargs: Any) -> None:
    """AFTER Scheduler.run_batch."""
    from agentserve.engine.pruning import hooks

    hooks.free_dropped(*args, **kwargs)


def take_back(*args: Any, **kwargs: Any) -> None:
    """AFTER Req.reset_for_retract."""
    from agentserve.engine.pruning import hooks

    hooks.take_back(*args, **kwargs)


def touch_waiting(*args: Any, **kwargs: Any) -> None:
    """AROUND schedule_policy.touch_waiting_prefix."""
    from agentserve.engine.eviction import cache

    cache.touch_waiting(*args, **kwargs)


def answer_release(*args: Any, **kwargs: Any) -> Any:
    """AROUND Scheduler.handle_dumper_control."""
    from agentserve.engine.release import hooks

    return hooks.answer_release(*args, **kwargs)


def select_admission(*args: Any, **kwargs: Any) -> Any:
    """AROUND PrefillAdder._select_prefill_admission."""
    from agentserve.engine.chunking import hooks

    return hooks.select_admission(*args, **kwargs)


def add_chunked(*args: Any, **kwargs: Any) -> Any:
    """AROUND PrefillAdder.add_chunked_req."""
    from agentserve.engine.chunking import hooks

    return hooks.add_chunked(*args, **kwargs)


def evicting_cache(context: Any) -> Any:
    """The prefix cache that ``--radix-cache-backend agentserve`` stands for."""
    from agentserve.engine import compat_eviction
    from agentserve.engine.eviction.cache import EvictingCache

    return compat_eviction.build(context, EvictingCache)


HOOKS: tuple[Hook, ...] = (
    Hook(
        "sglang.srt.entrypoints.http_server.set_global_state",
        "after",
        add_routes,
        "(global_state)",
        server_only=True,
    ),
    Hook(
        "sglang.srt.runtime_context.publish",
        "before",
        before_publish,
        "(server_args, *, role, hf_config=None, ranks=None)",
    ),
    Hook(
        "sglang.srt.managers.tokenizer_manager.TokenizerManager._tokenize_one_request",
        "before",
        refuse_unfit,
        "(self, obj)",
        server_only=True,
    ),
    Hook(
        "sglang.srt.multimodal.processors.qwen_vl.QwenVLImageProcessor.process_mm_data_async",
        "around",
        process_items,
        "(self, image_data, input_text, request_obj, *args, **kwargs)",
        server_only=True,
    ),
    Hook(
        "sglang.srt.managers.tokenizer_manager.TokenizerManager.update_request_meta_info",
        "around",
        add_outcome,
        "(self, meta_info, state, customized_info, index, finish_reason)",
        server_only=True,
    ),
    Hook(
        "sglang.srt.managers.mm_schedule.get_embedding_and_mask",
        "around",
        embed_items,
        "(data_embedding_func, embedding_items, placeholder_tensor, input_ids, items_size,"
        " prefix_length, extend_length, items_offset_list)",
    ),
    Hook(
        "sglang.srt.managers.scheduler.Scheduler._get_multimodal_inputs",
        "around",
        select_tokens,
        "(self, mm_inputs)",
    ),
    Hook(
        "sglang.srt.managers.schedule_batch.Req._compute_max_prefix_len",
        "around",
        max_prefix,
        "(self, input_len)",
    ),
    Hook(
        "sglang.srt.managers.tp_worker.TpModelWorker.forward_batch_generation",
        "before",
        count_cuts,
        "(self, batch, forward_batch=None, pp_proxy_tensors=None, is_verify=False,"
        " skip_attn_backend_init=None, *, capture_hidden_mode=None, return_kv_loc_plan=False)",
    ),
    Hook(
        "sglang.srt.managers.tp_worker.TpModelWorker.forward_batch_generation",
        "around",
        run_batch,
        "(self, batch, forward_batch=None, pp_proxy_tensors=None, is_verify=False,"
        " skip_attn_backend_init=None, *, capture_hidden_mode=None, return_kv_loc_plan=False)",
    ),
    Hook(
        "sglang.srt.models.qwen2.Qwen2Model.forward",
        "around",
        run_layers,
        "(self, input_ids, positions, forward_batch, input_embeds=None, pp_proxy_tensors=None)",
    ),
    Hook(
        "sglang.srt.managers.scheduler.Scheduler.run_batch",
        "after",
        free_dropped,
        "(self, batch, pp_proxy_tensors=None)",
    ),
    Hook(
        "sglang.srt.managers.scheduler.Scheduler.handle_dumper_control",
        "around",
        answer_release,
        "(self, recv_req)",
    ),
    Hook(
        "sglang.srt.managers.schedule_policy.touch_waiting_prefix",
        "around",
        touch_waiting,
        "(req, tree_cache)",
    ),
    Hook(
        "sglang.srt.managers.schedule_policy.PrefillAdder._select_prefill_admission",
        "around",
        select_admission,
        "(self, req, *, total_tokens, host_hit_length, swa_host_hit_length, truncation_align_size,"
        " has_chunked_req=False)",
    ),
    Hook(
        "sglang.srt.managers.schedule_policy.PrefillAdder.add_chunked_req",
        "around",
        add_chunked,
        "(self, req)",
    ),
    Hook(
        "sglang.srt.managers.schedule_batch.Req.reset_for_retract",
        "after",
        take_back,
        "(self)",
    ),
)


def register() -> None:
    """Check SGLang and register every hook of this process; exit code 3 when one does not fit."""
    if boot_of() is None:
        return
    from agentserve.engine import compat

    try:
        compat.check_version()
        compat.check_names(_here(compat.NAMES))
        compat.check_names(
            compat.Name(hook.target, hook.signature, hook.server_only) for hook in _here(HOOKS)
        )
    except EngineMismatch as error:
        _stop(error)
    for hook in _here(HOOKS):
        compat.register_hook(hook.target, hook.kind, hook.function)
    compat.register_cache(CACHE, evicting_cache)


def verify_hooks() -> None:
    """End the process when one of its hooks is not in place: a worker is never half a worker."""
    from agentserve.engine import compat

    for hook in _here(HOOKS):
        if not compat.is_hooked(hook.target, hook.function):
            _stop(EngineMismatch(f"SGLang did not apply the hook on {hook.target}"))


def _here(entries: Iterable[Any]) -> list[Any]:
    child = multiprocessing.parent_process() is not None
    return [entry for entry in entries if not (child and entry.server_only)]


def _stop(error: EngineMismatch) -> NoReturn:
    hint = f" ({error.hint})" if error.hint else ""
    print(f"agentserve worker: {error.message}{hint}", file=sys.stderr, flush=True)
    if multiprocessing.parent_process() is None:
        raise SystemExit(EXIT_MISMATCH)
    os._exit(EXIT_MISMATCH)
