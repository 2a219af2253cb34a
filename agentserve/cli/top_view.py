"""What ``agentserve top`` looks like: 80 columns are enough."""

from __future__ import annotations

from datetime import datetime

from rich.console import Group, RenderableType
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from agentserve.cli.top_figures import Figures, RouterFigures, WorkerFigures

BAR, URL = 10, 24
"""Columns."""
_COLORS = {"ready": "green", "starting": "yellow", "down": "red", "refused": "red"}


def view(shown: Figures, every_s: float, at: datetime) -> RenderableType:
    parts: list[RenderableType] = [
        f"[bold]agentserve top[/]  {at:%H:%M:%S}  every {every_s:g} s  [dim]Ctrl-C ends it[/]"
    ]
    for why in shown.troubles.values():
        parts.append(f"[bold red]{escape(why)}[/]; trying again")
    if shown.routers:
        parts += [_turns(shown), _sessions(shown), _losses(shown)]
        parts += ["", _workers(shown.workers), "", _routers(shown.routers)]
    return Group(*(Text.from_markup(part) if isinstance(part, str) else part for part in parts))


def _turns(shown: Figures) -> str:
    return (
        f"[bold]turns[/]     {_number(shown.turns_per_s)}/s  p50 {_seconds(shown.p50_s)}  "
        f"p95 {_seconds(shown.p95_s)}  running {shown.running}  waiting {shown.queued}  "
        f"cached {_percent(shown.cached_share)}"
    )


def _sessions(shown: Figures) -> str:
    told = "  ".join(f"{status} {count:,}" for status, count in shown.sessions.items())
    return f"[bold]sessions[/]  {told or 'the store does not answer'}"


def _losses(shown: Figures) -> str:
    def one(reason: str, count: int) -> str:
        new = shown.new_losses.get(reason, 0)
        return f"{escape(reason)} {count:,}" + (f" [yellow](+{new:,})[/]" if new else "")

    told = "  ".join(one(reason, count) for reason, count in sorted(shown.losses.items()))
    return f"[bold]losses[/]    {told or 'none'}"


def _workers(workers: list[WorkerFigures]) -> Table:
    table = _table("worker", "state")
    for name in ("sess", "run"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("KV slots held", no_wrap=True)
    table.add_column("cached", justify="right", no_wrap=True)
    table.add_column("drain", no_wrap=True, overflow="ellipsis")
    for each in workers:
        worker = each.worker
        table.add_row(
            worker.id,
            _state(each),
            f"{worker.sessions:,}",
            f"{each.running:,}",
            _held(each),
            _percent(each.cached_share),
            _drain(each),
        )
    return table


def _state(each: WorkerFigures) -> str:
    state = "rests" if each.worker.resting else each.worker.state.value
    return f"[{_COLORS.get(state, 'yellow')}]{state}[/]"


def _held(each: WorkerFigures) -> str:
    if each.worker.report is None:
        return "[dim]plain[/]" if each.worker.boot_id else ""
    share = each.worker.held_tokens / max(1, each.worker.report.max_total_tokens)
    full = min(BAR, round(share * BAR))
    return f"{'█' * full}[dim]{'░' * (BAR - full)}[/] {share:>4.0%}"


def _drain(each: WorkerFigures) -> str:
    drain = each.worker.drain
    if drain is None:
        return ""
    if drain.done:
        return f"done, {drain.moved:,} moved"
    return f"{drain.moved:,} of {drain.moved + drain.left:,}"


def _routers(routers: list[RouterFigures]) -> Table:
    table = _table("router")
    table.add_column("url", no_wrap=True, overflow="ellipsis", max_width=URL)
    for name in ("run", "wait", "turns/s", "req/s", "lag p99", "MB"):
        table.add_column(name, justify="right", no_wrap=True)
    for each in routers:
        table.add_row(
            each.id[:10],
            escape(each.url.partition("://")[2].rpartition("@")[2]),
            str(each.running),
            str(each.queued),
            _number(each.turns_per_s),
            _number(each.requests_per_s),
            _seconds(each.lag_p99_s),
            f"{each.memory_bytes / 1e6:,.0f}",
        )
    return table


def _table(*columns: str) -> Table:
    table = Table(box=None, padding=(0, 1, 0, 0), header_style="bold")
    for name in columns:
        table.add_column(name, no_wrap=True, overflow="ellipsis")
    return table


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:,.1f}"


def _seconds(value: float | None) -> str:
    if value is None:
        return "–"
    return f"{value * 1000:.0f} ms" if value < 1 else f"{value:.1f} s"


def _percent(share: float | None) -> str:
    return "–" if share is None else f"{share:.0%}"
