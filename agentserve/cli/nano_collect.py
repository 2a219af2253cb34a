"""``agentserve nano collect``: screens to train on."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from agentserve.cli.console import err, out, run_until_signal

if TYPE_CHECKING:
    from agentserve.nano.collect.plan import Mode, Plan, Summary

EVERY = 1000
"""Screens from line to line where there is no terminal for a bar."""


def collect(
    folder: Annotated[Path, typer.Option("--out", help="Where the shards go.")],
    screens: Annotated[int, typer.Option(min=1, help="How many screens more there shall be.")],
    tasks: Annotated[
        str | None,
        typer.Option(
            help="MiniWoB++ tasks, by commas; one named twice comes twice as often. "
            "(default: all that have an oracle)"
        ),
    ] = None,
    mode: Annotated[
        str,
        typer.Option(help="grid: first screens, many at a time; solo: whole episodes, played."),
    ] = "grid",
    words_share: Annotated[
        float, typer.Option(min=0, max=1, help="Share of screens full of words (grid only).")
    ] = 0.4,
    augment: Annotated[
        float, typer.Option(min=0, max=1, help="Share of screens in other fonts and colours.")
    ] = 0.5,
    seed: Annotated[
        int, typer.Option(min=0, help="Another number gives other screens, never the same ones.")
    ] = 0,
    pages: Annotated[int, typer.Option(min=1, max=32, help="Pages at work side by side.")] = 2,
    as_json: Annotated[bool, typer.Option("--json", help="Print the counts as JSON.")] = False,
) -> None:
    """Collect screens with what is on them and what an expert would do next.

    A second call goes on where the first ended. Ctrl-C keeps what is there.
    """
    from agentserve.nano import oracles
    from agentserve.nano.collect.plan import Plan, Summary, check_plan

    names = tuple(name.strip() for name in (tasks or "").split(",") if name.strip())
    plan = Plan(
        out=folder,
        screens=screens,
        tasks=names if tasks is not None else oracles.TASKS,
        mode=_mode(mode),
        words_share=words_share,
        augment=augment,
        seed=seed,
        pages=pages,
    )
    check_plan(plan)
    summary = Summary()
    try:
        _collect(plan, summary)
    finally:
        if summary.screens:
            _tell(summary, as_json)


def _mode(name: str) -> Mode:
    from agentserve.nano.collect.plan import MODES

    for mode in MODES:
        if name == mode:
            return mode
    raise typer.BadParameter(f"--mode is {' or '.join(MODES)}, not {name!r}")


def _collect(plan: Plan, summary: Summary) -> None:
    from agentserve.nano.collect.run import collect

    bar = Progress(
        TextColumn("screens"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.speed:.1f}/s"),
        TimeRemainingColumn(),
        console=err,
        disable=not sys.stderr.isatty(),
        speed_estimate_period=10,
    )
    task = bar.add_task("screens", total=plan.screens)

    def progress(count: int) -> None:
        before = bar.tasks[task].completed
        bar.update(task, completed=count)
        if bar.disable and count // EVERY > before // EVERY:
            err.print(f"{count} screens")

    with bar:
        run_until_signal(collect(plan, progress, summary))


def _tell(summary: Summary, as_json: bool) -> None:
    if as_json:
        out.print_json(json.dumps({**vars(summary), "per_second": _rate(summary)}))
        return
    table = Table("task", "screens", "with a step", "solved", "unsolved", "last error", box=None)
    for task in sorted(summary.by_task | summary.unsolved | dict.fromkeys(summary.failures, 0)):
        counts = (summary.by_task, summary.with_step, summary.episodes, summary.unsolved)
        table.add_row(
            task, *(str(count[task] or "") for count in counts), summary.failures.get(task, "")
        )
    out.print(table)
    out.print(f"{summary.screens} screens in {len(summary.shards)} shards, {_rate(summary):.1f}/s")


def _rate(summary: Summary) -> float:
    return summary.screens / summary.seconds if summary.seconds else 0.0
