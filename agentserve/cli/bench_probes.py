"""``agentserve bench probes``: what routers survive."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from agentserve.cli.bench_routers import (
    OutOption,
    SglangRouterOption,
    SmgOption,
    check_out,
    report_of,
    targets_of,
    written,
)
from agentserve.cli.bench_run import JsonOption, origin
from agentserve.cli.console import err, out
from agentserve.cli.stage import Stage

if TYPE_CHECKING:
    from agentserve.bench.router.probes import ProbeFigures, ProbesReport
    from agentserve.bench.router.streams import Broken
    from agentserve.bench.router.targets import Target


def probes(
    sglang_router: SglangRouterOption = None,
    smg: SmgOption = None,
    as_json: JsonOption = False,
    out_file: OutOption = None,
) -> None:
    """Let workers and routers fail, beside other routers: what is answered, what stays in its
    place, what reaches the worker. Workers are scripted; nothing is computed.

    smg runs twice, with two ways to keep a session on its worker.
    """
    from dataclasses import replace

    check_out(out_file)
    targets = targets_of(sglang_router, smg).chosen
    hashing = [replace(one, policy="consistent_hashing") for one in targets if one.kind == "smg"]
    report = report_of(_measure([*targets, *hashing]))
    if not written(report, as_json, out_file):
        _tell(report)


async def _measure(targets: list[Target]) -> ProbesReport:
    from agentserve.bench.router.probes import PROBES, measure_probes

    with TemporaryDirectory(prefix="agentserve-bench-") as folder, Stage() as stage:
        done = stage.task("probes", PROBES * len(targets) + 1)
        return await measure_probes(targets, Path(folder), origin(), done)


def _tell(report: ProbesReport) -> None:
    from rich.table import Table

    table = Table(title=f"{report.workers} scripted workers each")
    table.add_column("probe")
    for router in report.routers:
        table.add_column(f"{router.target}\n{router.version}")
    rows = [_row(router) for router in report.routers]
    for name in rows[0]:
        table.add_row(name, *(row[name] for row in rows))
    out.print(table)
    policies = {one.pictures.policy for one in report.routers if one.policy is not None}
    if policies:
        err.print(f"other routers take the last probe with the policy {', '.join(policies)}")


def _row(router: ProbeFigures) -> dict[str, str]:
    refusals, bounced, kept = router.refusals, router.bounced, router.kept
    told = ", ".join(f"{count} x {status}" for status, count in refusals.statuses.items())
    turn = router.turn
    return {
        f"a worker refuses {refusals.bad} requests: good ones answered then": (
            f"{refusals.answered} of {refusals.good} ({told})"
        ),
        f"a worker is killed: of {bounced.sessions} sessions answered elsewhere": (
            f"{bounced.went_on}"
        ),
        "… and comes back cold: sessions that bounce back": f"{bounced.back}",
        f"the router is killed: of {router.restarted.names} sessions in place": (
            f"{router.restarted.kept}"
        ),
        "a worker dies in mid-stream: the client sees": _seen(router.broken),
        "… the session's next request": (
            "error" if router.broken.next_ms is None else f"{router.broken.next_ms:,.0f} ms"
        ),
        "… the same request again": "whole" if router.broken.repeated else "error",
        "a worker dies during a session's turn": (
            "no sessions"
            if turn is None
            else f"answered at attempt {turn.attempts}, "
            f"asked again: {'stored answer' if turn.replayed else 'run again'}"
        ),
        "body that reaches the worker": (
            "the same bytes"
            if kept.identical
            else f"written anew; lost: {', '.join(kept.lost_fields) or 'none'}"
        ),
        "headers lost": ", ".join(kept.lost_headers) or "none",
        f"same text, other screenshot: of {router.pictures.trials} taken for cached": (
            f"{router.pictures.same_text} (other text: {router.pictures.other_text})"
        ),
    }


def _seen(broken: Broken) -> str:
    if broken.broke_off:
        return "the connection breaks off"
    if broken.error is None:
        return "nothing"
    return f"an event: {broken.error}" + (", then DONE" if broken.done else "")
