"""``agentserve nano train`` and ``export``: make the bundled model's weights anew."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from agentserve.cli.console import err, out
from agentserve.core.errors import InvalidRequest

CURVES = "curves.png"


def train(
    data: Annotated[Path, typer.Option(help="Folder that `nano collect` fills.")],
    run: Annotated[Path, typer.Option(help="Folder of the training: checkpoint, log, curves.")],
    steps: Annotated[int, typer.Option(min=1, help="Steps, those of earlier runs included.")],
    batch: Annotated[int, typer.Option(min=1, help="Pictures a step and process.")] = 16,
    processes: Annotated[
        int, typer.Option(min=1, help="Processes of one thread each; 1 on a GPU.")
    ] = 1,
    lr: Annotated[float, typer.Option(min=0, help="Highest learning rate.")] = 2e-3,
    seed: Annotated[int, typer.Option(help="Of weights and batches.")] = 0,
    checkpoint_every: Annotated[
        float, typer.Option(min=1, help="Seconds between two checkpoints.")
    ] = 120.0,
    compiled: Annotated[
        bool, typer.Option("--compile/--no-compile", help="Compile the layers (needs a compiler).")
    ] = True,
    as_json: Annotated[bool, typer.Option("--json", help="Print the last measurements.")] = False,
) -> None:
    """Train the nano model, or go on where a training was stopped.

    Shards that are collected meanwhile are taken in. Ctrl-C stops it; the last checkpoint stays.
    """
    from agentserve.nano.train.curves import draw_curves, read_log
    from agentserve.nano.train.launch import run_training

    if not data.is_dir() or not any(data.glob("*.jsonl")):
        raise InvalidRequest(
            f"there are no shards in {data}", hint=f"agentserve nano collect --out {data}"
        )
    fields = {
        "data": str(data), "out": str(run), "steps": steps, "batch": batch, "lr": lr,
        "seed": seed, "compile": compiled, "checkpoint_every_s": checkpoint_every,
    }  # fmt: skip
    last: dict[str, Any] = {}
    columns = (
        TextColumn("step"), MofNCompleteColumn(), BarColumn(), TextColumn("{task.description}"),
        TimeRemainingColumn(),
    )  # fmt: skip
    started = time.monotonic()
    try:
        with Progress(*columns, console=err, transient=True) as progress:
            bar = progress.add_task("compiling", total=steps)
            for entry in run_training(fields, processes):
                last = entry if "held_out" in entry else {**last, **entry}
                progress.update(bar, completed=entry["step"], description=_describe(last))
    finally:
        if (run / "log.jsonl").stat().st_size:
            draw_curves(read_log(run), run / CURVES)
    if as_json:
        out.print_json(json.dumps(last))
        return
    out.print(f"{_describe(last)}, {time.monotonic() - started:.0f} s; curves: {run / CURVES}")
    out.print(f"next: agentserve nano export --run {run} --out FOLDER")


def export(
    run: Annotated[Path, typer.Option(help="Folder of a training.")],
    target: Annotated[Path, typer.Option("--out", help="Folder for the checkpoint.")],
) -> None:
    """Write a training's weights as a Qwen2.5-VL checkpoint that SGLang and transformers load."""
    from agentserve.nano.export import export_checkpoint, trained_weights

    checkpoint = run / "checkpoint.pt"
    if not checkpoint.is_file():
        raise InvalidRequest(f"{checkpoint} does not exist", hint="agentserve nano train writes it")
    export_checkpoint(trained_weights(checkpoint), target)
    size = sum(file.stat().st_size for file in target.iterdir())
    out.print(f"{target}: {size / 1e6:.1f} MB")
    out.print(f"next: agentserve nano evaluate --model {target}")


def _describe(entry: dict[str, Any]) -> str:
    if "answer" not in entry:
        return "compiling"
    words = f"loss {entry['answer']:.2f}, {entry['pictures_per_s']:.1f} pictures/s"
    if "held_out" in entry:
        hits, clicks = entry["held_out"]["clicks"]
        words += f", held-out clicks {100 * hits / clicks:.0f} %"
    return words
