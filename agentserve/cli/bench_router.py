"""``agentserve bench router``: what the router costs."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated

import typer

from agentserve.cli.bench_routers import (
    OutOption,
    SglangRouterOption,
    SmgOption,
    Targets,
    check_out,
    report_of,
    targets_of,
    written,
)
from agentserve.cli.bench_run import JsonOption, origin
from agentserve.cli.console import err, out
from agentserve.cli.stage import Stage

if TYPE_CHECKING:
    from agentserve.bench.router.report import RouterReport


def router(
    sglang_router: SglangRouterOption = None,
    smg: SmgOption = None,
    rounds: Annotated[int, typer.Option(min=1, help="Turns of each router under each load.")] = 5,
    slice_s: Annotated[
        float, typer.Option(min=0.05, max=60, help="Seconds of one such turn.")
    ] = 0.7,
    routers: Annotated[
        int,
        typer.Option(min=1, max=64, help="Routers of ours that share a port as one more; 1: none."),
    ] = 2,
    as_json: JsonOption = False,
    out_file: OutOption = None,
) -> None:
    """Show what the pass-through adds to a request and how many it passes, beside other routers and
    none, and what a session's turn costs in the router. Workers are scripted; nothing is computed.
    Several routers that share a port need redis-server.

    The machine should have nothing else to do.
    """
    check_out(out_file)
    targets = targets_of(sglang_router, smg, routers)
    report = report_of(_measure(targets, rounds, slice_s))
    if not written(report, as_json, out_file):
        _tell(report)


async def _measure(targets: Targets, rounds: int, slice_s: float) -> RouterReport:
    from typing import get_args

    from agentserve.bench.router.passing import CONCURRENCIES, SCREENSHOTS
    from agentserve.bench.router.report import measure_router
    from agentserve.bench.router.turns import POLICIES, TURNS, Way

    loads = len(SCREENSHOTS) * len(CONCURRENCIES)
    kinds = len(POLICIES) * len(get_args(Way))
    with TemporaryDirectory(prefix="agentserve-bench-") as folder, Stage() as stage:
        passed = stage.task("pass-through", loads * (rounds + 1) * (len(targets.chosen) + 1))
        turned = stage.task("turns", kinds * rounds * TURNS)
        return await measure_router(
            *targets, rounds, slice_s, Path(folder), origin(), passed, turned
        )


def _tell(report: RouterReport) -> None:
    from rich.table import Table

    table = Table(title="pass-through")
    table.add_column("screenshots x\nconcurrency")
    table.add_column("router")
    for name in (
        "p50", "p99", "added\np50", "added\np99", "requests/s", "of direct", "CPU a\nrequest",
    ):  # fmt: skip
        table.add_column(name, justify="right")
    for load in report.passing:
        for one in load.figures:
            times = (one.p50, one.p99, one.added_p50, one.added_p99)
            table.add_row(
                f"{load.screenshots} x {load.concurrency}",
                one.target,
                *(f"{time:,.2f} ms" for time in times),
                f"{one.per_s:,.0f}",
                f"{one.per_s_ratio:.2f}",
                "" if one.cpu is None else f"{one.cpu:.2f} ms",
            )
        table.add_section()
    out.print(table)
    table = Table(title="a session's turn: the router's own work")
    table.add_column("policy")
    table.add_column("screenshot")
    for name in ("p50", "p99", "first\nturns", "decode,\nstore, plan", "place", "upload"):
        table.add_column(name, justify="right")
    for one in report.turns:
        times = (one.own, one.own_p99, one.own_first, one.plan, one.queue)
        upload = "" if one.upload is None else f"{one.upload:,.1f} ms"
        table.add_row(one.policy, one.way, *(f"{time:,.1f} ms" for time in times), upload)
    out.print(table)
    if report.load_before > 1:
        err.print(
            f"[yellow]the machine was busy[/]: {report.load_before:.1f} processes wanted one of "
            f"its {report.cpus} CPUs before"
        )
