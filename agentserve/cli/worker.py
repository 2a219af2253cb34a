"""``agentserve worker``: a stock SGLang server with the agentserve plugin."""

from __future__ import annotations

from typing import Annotated, Literal

import typer

from agentserve.core.config import WORKER_PORT


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
            sglang_arguments=tuple(context.args),
        )
    )
