"""``agentserve bench gap``: what a long prompt does to a stream beside it."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Annotated

import typer

from agentserve.cli.bench_run import (
    JsonOption,
    ModelOption,
    UrlOption,
    bench_worker,
    origin,
)
from agentserve.cli.console import err, out, run_until_signal
from agentserve.cli.stage import Stage
from agentserve.core.errors import InvalidRequest

if TYPE_CHECKING:
    from agentserve.bench.gap import GapReport

CHUNK = 256


def gap(
    prompt_tokens: Annotated[
        int, typer.Option(min=300, help="Tokens of the prompt, about two thirds of them visual.")
    ] = 2500,
    chunk: Annotated[
        int | None,
        typer.Option(min=1, help=f"Chunk size of the worker that is started. (default: {CHUNK})"),
    ] = None,
    mixed: Annotated[
        bool,
        typer.Option("--mixed/--no-mixed", help="Whether chunks share batches with streams there."),
    ] = True,
    encoded: Annotated[
        bool,
        typer.Option(
            "--encoded/--not-encoded",
            help="Whether the vision encoder has seen the pictures before: its part is then left"
            " out.",
        ),
    ] = False,
    repeats: Annotated[int, typer.Option(min=1, help="Prompts of each mode.")] = 5,
    url: UrlOption = None,
    model: ModelOption = "nano",
    as_json: JsonOption = False,
) -> None:
    """Show how long a running stream waits for its next token while a long prompt with pictures is
    computed: cut into chunks, in one chunk, and in one chunk while it is pruned inside the model.

    The one chunk is that of a pruning which drops nothing, so that all is measured on one worker.
    """
    if url is not None and chunk is not None:
        raise InvalidRequest("--chunk is of a worker that is started: it does not go with --url")
    arguments = ("--chunked-prefill-size", str(chunk or CHUNK))
    if mixed:
        arguments += ("--enable-mixed-chunk",)
    report = run_until_signal(_measure(prompt_tokens, encoded, repeats, url, model, arguments))
    if as_json:
        out.print_json(report.model_dump_json())
        return
    _tell(report)


async def _measure(
    prompt_tokens: int,
    encoded: bool,
    repeats: int,
    url: str | None,
    model: str,
    arguments: tuple[str, ...],
) -> GapReport:
    from agentserve.bench.gap import MODES, measure

    async with bench_worker(url, model, arguments) as worker:
        with Stage() as stage:
            sent = stage.task("prompts", repeats * len(MODES))
            return await asyncio.to_thread(
                measure, worker, prompt_tokens, encoded, repeats, origin(), sent
            )


def _tell(report: GapReport) -> None:
    from rich.table import Table

    shares = "with" if report.mixed else "without"
    table = Table(
        title=f"a stream beside prompts of {report.prompt_tokens:,} tokens, pictures "
        f"{'encoded before' if report.encoded else 'not encoded before'}; chunks of "
        f"{report.chunk}, {shares} streams in their batches; {report.model} on {report.device}"
    )
    table.add_column("prompt")
    for name in ("gap alone\nmedian", "gap beside\np95", "gap beside\nlargest", "prompt's\nTTFT"):
        table.add_column(name, justify="right")
    for one in report.modes:
        times = (one.alone, one.p95, one.largest, one.ttft)
        table.add_row(one.mode, *(f"{time:,.0f} ms" for time in times))
    out.print(table)
    err.print("next: agentserve worker --chunked-prefill-size N sets the chunk of a worker")
