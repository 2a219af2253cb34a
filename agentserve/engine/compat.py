"""Every private name of SGLang that agentserve uses, in one place, with the signature it must have.

Only this file and its siblings compat_* import sglang. SGLang promises none of these names,
so they are checked before they are used; a release that changed one is refused with a line that
names it.
"""

from __future__ import annotations

import inspect
import os
import pkgutil
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from importlib import import_module
from importlib.metadata import version
from typing import Any

from fastapi import FastAPI
from sglang.srt.plugins import load_plugins
from sglang.srt.plugins.hook_registry import HookRegistry, HookType
from tokenizers import Tokenizer

from agentserve.core.errors import EngineMismatch

SGLANG_VERSION = "0.5.23"
"""The release whose names these are."""


@dataclass(frozen=True)
class Name:
    """A function or class of SGLang and its parameters, without annotations."""

    target: str
    signature: str
    server_only: bool = False
    """Used (and, for a child process, only importable at a cost) in the HTTP server's process."""


@dataclass(frozen=True)
class ServerFacts:
    """What the HTTP server knows of its model once the engine has started."""

    model: str
    served_model_name: str
    architecture: str
    context_length: int
    max_total_tokens: int
    page_size: int
    layers: int
    device: str
    tokenizer_json: str
    cache: str | None = None
    """The prefix cache's name; None for SGLang's own."""


CACHE_TARGET = "sglang.srt.mem_cache.registry.register_radix_cache_backend"
_TREE = "sglang.srt.mem_cache.unified_radix_cache.UnifiedRadixCache"
_RUST = "sglang.srt.mem_cache.rust_tree_core.adapter.RustUnifiedTreeCore"
_PYTHON = "sglang.srt.mem_cache.unified_cache.unified_tree_core.UnifiedTreeCore"
_SLOTS = "sglang.srt.mem_cache.allocator.token.TokenToKVPoolAllocator"
_RESIDUAL = "sglang.srt.layers.layer_boundary.residual.batch"
_QWEN_VL = "sglang.srt.multimodal.processors.qwen_vl.QwenVLImageProcessor"

NAMES: tuple[Name, ...] = (
    Name("sglang.srt.plugins.load_plugins", "()"),
    Name(
        "sglang.srt.plugins.hook_registry.HookRegistry.register",
        "(target, hook, hook_type=<HookType.AFTER: 'after'>, *, source=None)",
    ),
    Name("sglang.srt.server_args.prepare_server_args", "(argv)", server_only=True),
    Name("sglang.launch_server.run_server", "(server_args)", server_only=True),
    Name(
        "sglang.srt.utils.kill_process_tree",
        "(parent_pid, include_parent=True, skip_pid=None, wait_timeout=60)",
        server_only=True,
    ),
    Name(
        "sglang.srt.entrypoints.http_server._GlobalState",
        "(tokenizer_manager, template_manager, scheduler_info)",
        server_only=True,
    ),
    Name(
        "sglang.srt.managers.tokenizer_control_mixin.TokenizerControlMixin.dumper_control",
        "(self, obj)",
        server_only=True,
    ),
    Name("sglang.srt.managers.scheduler.Scheduler.collect_inflight_reqs", "(self)"),
    Name(
        "sglang.srt.managers.io_struct.DumperControlReqInput",
        "(*, rid=None, http_worker_ipc=None, method, body)",
    ),
    Name(
        "sglang.srt.managers.io_struct.DumperControlReqOutput",
        "(*, rid=None, http_worker_ipc=None, success, response, error='')",
    ),
    Name(f"{_QWEN_VL}._prepare_mm_items_for_transport", "(self, mm_items)", server_only=True),
    Name(
        f"{_QWEN_VL}.prepare_media_artifacts",
        "(self, media_data, *, content_hashes=None, featureless_hit_mask=None, modality=None)",
        server_only=True,
    ),
    Name(
        f"{_QWEN_VL}.prepare_artifact_batch",
        "(self, entries, *, processor=None)",
        server_only=True,
    ),
    Name("sglang.srt.managers.schedule_batch.MultimodalDataItem.set_hash", "(self, hash_value)"),
    Name("sglang.srt.managers.schedule_batch.MultimodalDataItem.set_identity", "(self, identity)"),
    Name(
        "sglang.srt.managers.schedule_batch.MultimodalProcessorOutput.build_padded_input_ids",
        "(input_ids, mm_items)",
    ),
    Name(
        "sglang.srt.managers.schedule_batch.MultimodalDataItem.padding_sequence", "(self, length)"
    ),
    Name(CACHE_TARGET, "(name, factory)"),
    Name("sglang.srt.mem_cache.registry.registered_radix_cache_backends", "()"),
    Name("sglang.srt.mem_cache.registry.create_unified_radix_cache", "(ctx, *, cache_class=None)"),
    Name("sglang.srt.mem_cache.registry.default_radix_cache_factory", "(ctx)"),
    Name(f"{_TREE}.reset", "(self)"),
    Name(f"{_TREE}.match_prefix", "(self, params)"),
    Name(f"{_TREE}.touch_prefix", "(self, key)"),
    Name(
        "sglang.srt.mem_cache.common._req_radix_key",
        "(tree_cache, req, token_ids, max_prefix_len=None)",
    ),
    Name(f"{_TREE}.checkpoint", "(self, req, *, up_to, **kwargs)"),
    Name(f"{_TREE}.lock", "(self, node_id, skip_lock_components=())"),
    Name(f"{_TREE}.unlock", "(self, lock)"),
    Name(f"{_TREE}.evict", "(self, params)"),
    Name(f"{_TREE}.protected_size", "(self)"),
    Name(f"{_TREE}.evictable_size", "(self)"),
    Name(f"{_TREE}._apply_eviction_result", "(self, result)"),
    *(
        Name(f"{core}.{method}", signature)
        for core in (_RUST, _PYTHON)
        for method, signature in (
            ("collect_path_info", "(self, end_node_ids)"),
            ("evict_device_leaf", "(self, node_id, is_write_back)"),
        )
    ),
    Name(f"{_SLOTS}.alloc", "(self, need_size)"),
    Name(f"{_SLOTS}.free", "(self, free_index)"),
    Name(
        "sglang.srt.mem_cache.memory_pool.move_kv_cache_native",
        "(k_buffer, v_buffer, tgt_loc, src_loc)",
    ),
    Name(
        "sglang.srt.mem_cache.radix_cache.RadixKey",
        "(token_ids, extra_key=None, is_bigram=False, limit=None, cache_salt=None)",
    ),
    *(
        Name(f"{_RESIDUAL}.{function}", signature)
        for function, signature in (
            ("start", "(forward_batch)"),
            ("complete_output", "(hidden_states, forward_batch)"),
            ("export_replay_handoff", "(hidden_states, forward_batch)"),
            ("import_replay_handoff", "(handoff, forward_batch, *, update_context=None)"),
            (
                "final_norm",
                "(hidden_states, forward_batch, layernorm, capture=None, *, finalize_norm=None,"
                " skip_empty=False, **read_kwargs)",
            ),
        )
    ),
    Name(
        "sglang.srt.mem_cache.kv_index_translator.KVIndexTranslator.own_plan",
        "(self, forward_batch, *, runner_slots=False)",
    ),
    Name("sglang.srt.mem_cache.kv_loc_plan.KVLocPlan.bind", "(self, batch, reader, *, cols=None)"),
    Name("sglang.srt.model_executor.forward_context.get_attn_backend", "()"),
    Name(
        "sglang.srt.mem_cache.memory_pool.KVWriteLoc",
        "(loc, swa_loc=None, full_loc=None, physical=False)",
    ),
    Name(
        "sglang.srt.mem_cache.memory_pool.MHATokenToKVPool.set_kv_buffer",
        "(self, layer, loc_info, cache_k, cache_v, k_scale=None, v_scale=None,"
        " layer_id_override=None, dcp_kv_mask=None)",
    ),
    Name("sglang.srt.mem_cache.memory_pool.MHATokenToKVPool.get_key_buffer", "(self, layer_id)"),
    Name("sglang.srt.mem_cache.memory_pool.ReqToTokenPool.write", "(self, indices, values)"),
    Name("sglang.srt.mem_cache.common.release_kv_cache", "(req, tree_cache, *, checkpoint)"),
    Name("sglang.srt.runtime_context.get_memory", "()"),
    Name("sglang.srt.runtime_context.get_spec", "()"),
    Name("sglang.srt.runtime_context.get_disagg", "()"),
    Name("sglang.srt.runtime_context.get_model", "()"),
    Name("sglang.srt.runtime_context.get_parallel", "()"),
    Name("sglang.srt.runtime_context.get_schedule", "()"),
    Name("sglang.srt.runtime_context.get_device", "()", server_only=True),
)


def check_version() -> None:
    """Raises EngineMismatch when another release of SGLang is installed."""
    found = version("sglang")
    if found != SGLANG_VERSION:
        raise EngineMismatch(
            f"the plugin fits SGLang {SGLANG_VERSION}, this is {found}",
            hint=f"pip install sglang=={SGLANG_VERSION}, or start the worker with --no-plugin",
        )


def check_names(names: Iterable[Name]) -> None:
    """Raises EngineMismatch for the first name that is missing or has another signature."""
    for name in names:
        try:
            found = _signature(resolve(name.target))
        except (ImportError, AttributeError) as error:
            raise EngineMismatch(
                f"SGLang has no {name.target} ({error})", hint="start the worker with --no-plugin"
            ) from error
        if found != name.signature:
            raise EngineMismatch(
                f"{name.target} takes {found}, the plugin expects {name.signature}",
                hint="start the worker with --no-plugin",
            )


def resolve(target: str) -> Any:
    """The object a dotted name stands for; imports its module."""
    return pkgutil.resolve_name(target)


def _signature(function: Callable[..., Any]) -> str:
    signature = inspect.signature(function)
    bare = [p.replace(annotation=p.empty) for p in signature.parameters.values()]
    return str(signature.replace(parameters=bare, return_annotation=signature.empty))


def register_hook(target: str, kind: str, function: Callable[..., Any]) -> None:
    """``kind``: before, after, around or replace. SGLang patches once all plugins have run."""
    HookRegistry.register(target, function, HookType(kind))


def register_cache(name: str, factory: Callable[[Any], Any]) -> None:
    """Let ``--radix-cache-backend`` take ``name``; once in a process that loads plugins twice."""
    if name not in resolve("sglang.srt.mem_cache.registry.registered_radix_cache_backends")():
        resolve(CACHE_TARGET)(name, factory)


def is_hooked(target: str, function: Callable[..., Any]) -> bool:
    """Whether a call of ``target`` reaches ``function``.

    SGLang wraps the target once per hook; each wrapper holds its hook in a closure and leads to
    what it wraps.
    """
    current: Any = resolve(target)
    while current is not None:
        cells = getattr(current, "__closure__", None) or ()
        if current is function or any(cell.cell_contents is function for cell in cells):
            return True
        current = getattr(current, "__wrapped__", None)
    return False


def http_app() -> FastAPI:
    """SGLang's own FastAPI app, before it starts to listen."""
    return resolve("sglang.srt.entrypoints.http_server.app")


def server_facts(state: Any) -> ServerFacts:
    """Reads the facts from the HTTP server's global state.

    Raises EngineMismatch when the state is built differently, or the tokenizer is not a fast one.
    """
    from sglang.srt.runtime_context import get_device, get_memory, get_schedule

    manager = state.tokenizer_manager
    try:
        return ServerFacts(
            model=manager.model_path,
            served_model_name=manager.served_model_name,
            architecture=manager.model_config.hf_config.architectures[0],
            context_length=manager.model_config.context_len,
            max_total_tokens=state.scheduler_info["max_total_num_tokens"],
            page_size=get_schedule().page_size,
            layers=manager.model_config.num_hidden_layers,
            device=get_device().device,
            tokenizer_json=_tokenizer_json(manager.tokenizer),
            cache=get_memory().radix_cache_backend,
        )
    except (AttributeError, KeyError, TypeError) as error:
        raise EngineMismatch(
            f"SGLang's server state is not as the plugin knows it: {error!r}",
            hint="start the worker with --no-plugin",
        ) from error


def _tokenizer_json(tokenizer: Any) -> str:
    """The fast tokenizer's own file; what a caller set for one batch is not part of it."""
    copy = Tokenizer.from_str(tokenizer.backend_tokenizer.to_str())
    copy.no_truncation()
    copy.no_padding()
    return copy.to_str()


def import_engine(*, server: bool) -> None:
    """Import what SGLang's processes need; ``server``: also what only the HTTP server does."""
    modules = ["sglang.srt.managers.scheduler", "sglang.srt.managers.detokenizer_manager"]
    if server:
        modules += ["sglang.srt.entrypoints.http_server", "sglang.launch_server"]
    for module in modules:
        import_module(module)


def serve(arguments: Sequence[str], check: Callable[[], None]) -> None:
    """Run SGLang's server until it is stopped, like its own command line does.

    ``check`` is called when the plugins are loaded.
    """
    load_plugins()
    check()
    prepare, run, kill_tree = (
        resolve("sglang.srt.server_args.prepare_server_args"),
        resolve("sglang.launch_server.run_server"),
        resolve("sglang.srt.utils.kill_process_tree"),
    )
    server_args = prepare(list(arguments))
    try:
        run(server_args)
    finally:
        kill_tree(os.getpid(), include_parent=False)
