"""``agentserve bench``: measurements with their baseline in the same run."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from agentserve.cli import bench_gap, bench_probes, bench_pruning, bench_router
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
from agentserve.cli.screens import DEFAULT, Cell, Context, PositionsOption
from agentserve.cli.stage import Stage
from agentserve.core.errors import InvalidRequest
from agentserve.core.sessions import ScreenPolicy

if TYPE_CHECKING:
    from agentserve.bench.policies import PoliciesReport
    from agentserve.bench.scripts import Texts

app = typer.Typer(no_args_is_help=True, help="Measure what the product claims.")
app.command("pruning")(bench_pruning.pruning)
app.command("gap")(bench_gap.gap)
app.command("probes")(bench_probes.probes)
app.command("router")(bench_router.router)


@app.command()
def policies(
    folders: FoldersArgument = None,
    recording: Annotated[
        list[Path] | None, typer.Option(help="A recording to play as well; repeatable.")
    ] = None,
    policies: Annotated[
        str, typer.Option(help="Policies, by commas; the others are compared with the first.")
    ] = "current,mosaic,last:5",
    cell: Cell = None,
    positions: PositionsOption = DEFAULT.positions,
    vision_context: Context = "cell",
    url: UrlOption = None,
    model: ModelOption = "nano",
    system_tokens: Annotated[int, typer.Option(min=0, help="Tokens of system text.")] = 800,
    turn_tokens: Annotated[int, typer.Option(min=0, help="Tokens of text a turn.")] = 120,
    turns: TurnsOption = None,
    as_json: JsonOption = False,
    plot: Annotated[
        Path | None, typer.Option(help="Draw the turns into this file (.png, .svg or .pdf).")
    ] = None,
) -> None:
    """Play screens as a session under each policy; show what was sent, computed and kept.

    Each policy begins with an empty prefix cache and plays the screens twice: a second session of
    the same surface shows what is shared. A mosaic's layout is what two earlier sessions would have
    taught.
    """
    from agentserve.bench.scripts import Texts

    check_plot(plot)
    chosen = [
        ScreenPolicy(
            policy=name.strip(), cell=cell, positions=positions, vision_context=vision_context
        )
        for name in policies.split(",")
        if name.strip()
    ]
    if not chosen:
        raise InvalidRequest("--policies names no policy")
    texts = Texts(system=system_tokens, turn=turn_tokens)
    reports = run_until_signal(
        _policies(folders or [], recording or [], chosen, texts, url, model, turns)
    )
    if plot is not None:
        from agentserve.bench.plot import draw_policies

        draw_policies(reports, plot)
    if as_json:
        from pydantic import TypeAdapter

        from agentserve.bench.policies import PoliciesReport

        # one tape is the rule; several come as a list
        data = TypeAdapter(PoliciesReport | list[PoliciesReport]).dump_json(
            reports[0] if len(reports) == 1 else reports
        )
        out.print_json(data.decode())
        return
    for report in reports:
        _tell(report)
    if plot is not None:
        err.print(f"drawn: {plot}")


async def _policies(
    folders: list[Path],
    recordings: list[Path],
    chosen: list[ScreenPolicy],
    texts: Texts,
    url: str | None,
    model: str,
    turns: int | None,
) -> list[PoliciesReport]:
    from agentserve.bench.policies import SESSIONS, measure
    from agentserve.bench.tape import read_tapes

    async with bench_worker(url, model) as worker:
        tapes = read_tapes(folders, recordings, worker.family.grid, turns)
        reports = []
        with Stage() as stage:
            for tape in tapes:
                played = stage.task(tape.name, len(tape.screens) * len(chosen) * SESSIONS)
                reports.append(
                    await asyncio.to_thread(measure, worker, tape, chosen, texts, origin(), played)
                )
        return reports


def _tell(report: PoliciesReport) -> None:
    from rich.table import Table

    table = Table(
        title=f"{report.tape}: {report.policies[0].turns} turns of {report.screen}, "
        f"{report.model} on {report.device}"
    )
    table.add_column("policy")
    for name in (
        "prompt\na turn", "computed\na turn", "after the\nfirst", "ratio", "largest\nprompt",
        "largest\nheld", "visual KV\npeak/held", "pictures\nencoded", "TTFT\nmedian",
        "2nd session:\nstatic cached",
    ):  # fmt: skip
        table.add_column(name, justify="right")
    for one in report.policies:
        table.add_row(
            one.policy,
            f"{one.sent_per_turn:,.0f}",
            f"{one.prefilled_per_turn:,.0f}",
            f"{one.prefilled_after_first_per_turn:,.0f}",
            f"{one.ratio['prefilled_after_first_per_turn']:.2f}",
            f"{one.largest_prompt:,}",
            f"{one.largest_held:,}",
            f"{one.visual_kv_peak:,}/{one.visual_kv_after:,}",
            "?" if one.encoder_calls is None else f"{one.encoder_calls:,}",
            f"{one.ttft_ms:,.0f} ms",
            f"{one.again.first_shared_cached:,} of {one.again.first_shared:,}",
        )
    out.print(table)


@app.command()
def screens(
    tape: Annotated[str, typer.Argument(help="form or navigation.")],
    folder: Annotated[Path, typer.Argument(help="New folder for the screenshots.")],
) -> None:
    """Take the screenshots of a scripted session on the bundled admin pages."""
    from agentserve.bench.screens import TAPES, take_screens

    if tape not in TAPES:
        raise InvalidRequest(f"no such tape: {tape!r}", hint=f"known: {', '.join(TAPES)}")
    if folder.exists():
        raise InvalidRequest(f"{folder} exists already", hint="name a new folder")
    count = run_until_signal(take_screens(tape, folder))
    err.print(f"{count} screenshots in {folder}; next: agentserve bench policies {folder}")
