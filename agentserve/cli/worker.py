"""``agentserve worker``: a stock SGLang server with the agentserve plugin."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from agentserve.core.config import WORKER_PORT, FeatureCacheConfig


def worker(
    context: typer.Context,
    model: Annotated[
        str, typer.Option(help="Path or name of a model; `nano` is the bundled one.")
    ] = "nano",
    device: Annotated[
        Literal["cpu", "cuda"] | None,
        typer.Option(help="Where SGLang runs. (default: cuda where there is a GPU)"),
    ] = None,
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="Port to listen on.")] = WORKER_PORT,
    plugin: Annotated[
        bool, typer.Option(help="Load the agentserve plugin; without it the server is stock.")
    ] = True,
    feature_cache_mb: Annotated[
        int, typer.Option(help="Host memory for what the vision encoder made of regions.", min=0)
    ] = FeatureCacheConfig.memory_mb,
    feature_cache_dir: Annotated[
        Path | None,
        typer.Option(help="Folder for the same, shared by the workers of a host, kept for later."),
    ] = None,
    feature_cache_dir_mb: Annotated[
        int, typer.Option(help="Largest size of that folder.", min=1)
    ] = FeatureCacheConfig.folder_mb,
    count_flops: Annotated[
        bool,
        typer.Option(
            "--count-flops",
            help="Count what the language model takes for each prompt, and tell with the answer;"
            " slow: for measurements.",
        ),
    ] = False,
) -> None:
    """Start an SGLang worker. Further arguments go to SGLang as they are.

    Example: agentserve worker --model Qwen/Qwen2.5-VL-7B-Instruct --tp 2
    """
    from agentserve.engine.launch import WorkerOptions, run_worker

    served_name = None
    if model == "nano":
        from agentserve.nano.store import nano_path

        model, served_name = str(nano_path()), "nano"
    run_worker(
        WorkerOptions(
            model=model,
            device=device,
            host=host,
            port=port,
            plugin=plugin,
            served_model_name=served_name,
            feature_cache=FeatureCacheConfig(
                memory_mb=feature_cache_mb,
                folder=str(feature_cache_dir) if feature_cache_dir else None,
                folder_mb=feature_cache_dir_mb,
            ),
            count_flops=count_flops,
            sglang_arguments=tuple(context.args),
        )
    )
