"""``agentserve bench pruning``: ways to leave out visual tokens, beside each other."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from agentserve.cli.bench_run import (
    FoldersArgument,
    JsonOption,
    ModelOption,
    TurnsOption,
    UrlOption,
    bench_worker,
    check_plot,
    origin,
)
from agentserve.cli.console import err, out, run_until_signal
from agentserve.cli.screens import DEFAULT, Cell, Context
from agentserve.cli.stage import Stage
from agentserve.core.errors import InvalidRequest
from agentserve.core.sessions import ScreenPolicy

if TYPE_CHECKING:
    from agentserve.bench.pruning import PruningReport, Session
    from agentserve.bench.tape import Tape
    from agentserve.bench.worker import BenchWorker


SettingsOption = Annotated[
    str | None,
    typer.Option(
        help="Methods by commas: METHOD, after:METHOD for an eviction, each with :RATIO for one"
        " ratio of its own. The baselines uniform and random are always there. (default: all)"
    ),
]
Ratios = Annotated[str, typer.Option(help="Shares of the tokens that go, by commas.")]


@dataclass(frozen=True)
class _Asked:
    folders: list[Path]
    recordings: list[Path]
    settings: str | None
    ratios: list[float]
    screens: ScreenPolicy
    url: str | None
    model: str
    turns: int | None
    rounds: int


def pruning(
    folders: FoldersArgument = None,
    recording: Annotated[
        list[Path] | None,
        typer.Option(help="A recording to play as well, with its program; repeatable."),
    ] = None,
    settings: SettingsOption = None,
    ratios: Ratios = "0.25,0.5,0.75",
    cell: Cell = None,
    vision_context: Context = DEFAULT.vision_context,
    url: UrlOption = None,
    model: ModelOption = "nano",
    turns: TurnsOption = None,
    rounds: Annotated[
        int, typer.Option(min=1, help="How often each setting plays; times are the fastest.")
    ] = 2,
    as_json: JsonOption = False,
    plot: Annotated[
        Path | None,
        typer.Option(help="Draw agreement over kept tokens into this file (.png, .svg or .pdf)."),
    ] = None,
) -> None:
    """Play sessions as a mosaic under each way to prune or evict; show what it saves, and how often
    the model still answers as it does unpruned.

    All settings go on from the answers of the unpruned session. Without --url, the worker that is
    started counts what the language model takes (agentserve worker --count-flops).
    """
    check_plot(plot)
    screens = ScreenPolicy(policy="mosaic", cell=cell, vision_context=vision_context)
    asked = _Asked(
        folders or [], recording or [], settings, ratios_of(ratios), screens, url, model, turns,
        rounds,
    )  # fmt: skip
    report = run_until_signal(_measure(asked))
    if plot is not None:
        from agentserve.bench.plot import draw_pruning

        draw_pruning(report, plot)
    if as_json:
        out.print_json(report.model_dump_json())
        return
    _tell(report)
    if plot is not None:
        err.print(f"drawn: {plot}")


async def _measure(asked: _Asked) -> PruningReport:
    from agentserve.bench.pruning import measure
    from agentserve.bench.settings import settings_of
    from agentserve.bench.tape import read_tapes

    async with bench_worker(asked.url, asked.model, ("--count-flops",)) as worker:
        grid = worker.family.grid
        tapes = read_tapes(asked.folders, asked.recordings, grid, asked.turns)
        settings = settings_of(asked.settings, asked.ratios, worker.family)
        sessions = _sessions(worker, tapes)
        total = sum(len(tape.screens) for tape in tapes) * len(settings) * asked.rounds
        with Stage() as stage:
            played = stage.task("turns", total)
            return await asyncio.to_thread(
                measure, worker, sessions, settings, asked.screens, asked.rounds, origin(), played
            )


def _sessions(worker: BenchWorker, tapes: Sequence[Tape]) -> list[Session]:
    from agentserve.bench.pruning import Session
    from agentserve.bench.scripts import Filler, Recorded, Texts
    from agentserve.cli.serve import bundled_programs
    from agentserve.lang.registry import load_registry

    programs = load_registry([bundled_programs()])
    sessions = []
    for tape in tapes:
        if tape.run is None:
            sessions.append(Session(tape, Filler(worker, Texts(), tape.name)))
            continue
        of = tape.run.session
        sessions.append(Session(tape, Recorded(programs.get(of.program), of.task, tape.turns)))
    return sessions


def ratios_of(text: str) -> list[float]:
    """Raises InvalidRequest for what is no list of numbers."""
    try:
        return [float(part) for part in text.split(",") if part.strip()]
    except ValueError:
        raise InvalidRequest(f"--ratios {text!r}: write numbers by commas") from None


def _tell(report: PruningReport) -> None:
    from rich.table import Table

    tapes = ", ".join(f"{tape.name} ({tape.turns} of {tape.screen})" for tape in report.tapes)
    table = Table(
        title=f"{report.turns} turns, {report.rounds} times: {tapes}; {report.model} on "
        f"{report.device}"
    )
    table.add_column("setting")
    for name in (
        "kept\nof sent", "computed\na turn", "prefill\nFLOPs", "KV slots\nheld", "TTFT\nmedian",
        "TTFT\nratio", "same first\ntoken", "same\nanswer",
    ):  # fmt: skip
        table.add_column(name, justify="right")
    for one in report.settings:
        table.add_row(
            one.name,
            f"{one.kept_share:.0%}",
            f"{one.computed_per_turn:,.0f}",
            "?" if one.flops_ratio is None else f"{one.flops_ratio:.2f}",
            f"{one.held:,.0f} ({one.held_ratio:.2f})",
            f"{one.ttft_ms:,.0f} ms",
            f"{one.ttft_ratio:.2f}",
            f"{one.same_first:.0%}",
            f"{one.same_answer:.0%}",
        )
    out.print(table)
    if report.settings[0].flops is None:
        err.print("[dim]prefill FLOPs: the worker does not count; start it with --count-flops[/]")
    for one in report.settings:
        if one.unchosen:
            err.print(f"{one.name}: in {one.unchosen} turns nothing could be chosen")
        if one.lost:
            err.print(f"{one.name}: {one.lost} turns found less in the cache than was left there")
    err.print("next: agentserve run --policy mosaic --pruning METHOD:RATIO, or --eviction")
