"""``agentserve top``: what the routers and workers do now."""

from __future__ import annotations

import asyncio
import json
import signal
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, nullcontext
from dataclasses import asdict
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer

from agentserve.cli.bench_run import JsonOption
from agentserve.core.config import api_key, router_url
from agentserve.core.errors import Unavailable

if TYPE_CHECKING:
    from agentserve.cli.top_figures import Figures
    from agentserve.cli.top_watch import Watch

PATIENCE_S = 5.0
"""For an answer of a router."""


def top(
    router: Annotated[
        list[str] | None,
        typer.Option(
            help="A router's URL; repeat for several that share a store. "
            "(default: $AGENTSERVE_ROUTER, else local)"
        ),
    ] = None,
    interval: Annotated[
        float, typer.Option(min=0.1, max=3600, help="Seconds between two looks.")
    ] = 2.0,
    once: Annotated[
        bool, typer.Option("--once", help="Look twice, an interval apart, tell that, and end.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Show workers, sessions, turns and losses as they are, until Ctrl-C."""
    asyncio.run(_top(router or [router_url()], interval, once, as_json))


async def _top(urls: list[str], interval: float, once: bool, as_json: bool) -> None:
    """Raises Unavailable for ``once`` when no router answers."""
    from rich.console import Console
    from rich.live import Live

    from agentserve.cli.top_view import view
    from agentserve.cli.top_watch import Watch
    from agentserve.client import RouterClient

    ended = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, ended.set)
    console = Console()
    live = console.is_terminal and not once and not as_json
    shown = Live(console=console, screen=True, auto_refresh=False) if live else None
    async with AsyncExitStack() as stack:
        clients = [RouterClient(url, api_key=api_key(), timeout_s=PATIENCE_S) for url in urls]
        watch = Watch([await stack.enter_async_context(client) for client in clients])
        with shown or nullcontext():
            async for figures in _rounds(watch, interval, ended, once):
                if as_json:
                    print(json.dumps(_wire(figures)), flush=True)
                elif shown is not None:
                    shown.update(view(figures, interval, datetime.now().astimezone()), refresh=True)
                else:
                    console.print(view(figures, interval, datetime.now().astimezone()))


async def _rounds(
    watch: Watch, interval: float, ended: asyncio.Event, once: bool
) -> AsyncIterator[Figures]:
    """Figures at each interval, until ``ended``; with ``once`` the first that tell of one."""
    rounds = 0
    while not ended.is_set():
        figures = await watch.look()
        rounds += 1
        if once and not figures.routers:
            raise Unavailable(
                next(iter(figures.troubles.values())), hint="name a running router by --router"
            )
        if not once or rounds > 1:
            yield figures
            if once:
                return
        try:
            async with asyncio.timeout(interval):
                await ended.wait()
        except TimeoutError:
            continue


def _wire(figures: Figures) -> dict[str, Any]:
    told = {"at": datetime.now(UTC).isoformat(), **asdict(figures)}
    told["workers"] = [
        {
            **each.worker.model_dump(mode="json", exclude={"report"}),
            "capacity_tokens": each.worker.report.max_total_tokens if each.worker.report else None,
            "running_turns": each.running,
            "cached_share": each.cached_share,
        }
        for each in figures.workers
    ]
    return told
