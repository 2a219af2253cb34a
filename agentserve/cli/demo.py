"""``agentserve demo``: the whole line on this machine, in one command."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from agentserve import __version__
from agentserve.cli.console import command, err, out, run_until_signal
from agentserve.cli.redaction import Mask, Secret, redacted
from agentserve.cli.screens import (
    DEFAULT,
    Cell,
    Context,
    EvictionOption,
    Policy,
    PositionsOption,
    PresetOption,
    PruningOption,
    screen_policy,
)
from agentserve.client import RouterClient
from agentserve.core.config import RunConfig
from agentserve.core.errors import InvalidRequest
from agentserve.core.sessions import ScreenPolicy

if TYPE_CHECKING:
    from agentserve.agents.run import Redacted
    from agentserve.browser.scenarios import Scenario
    from agentserve.cli.demo_view import DemoView

TASKS = (
    "miniwob/click-test",
    "miniwob/click-button",
    "miniwob/enter-text",
    "miniwob/click-dialog",
    "admin/sign-in",
)
SEED = 1


@dataclass(frozen=True)
class DemoOptions:
    tasks: tuple[str, ...]
    workers: int
    model: str
    device: str | None
    router: str | None
    max_turns: int
    recordings: Path
    keep_alive: bool
    as_json: bool
    screens: ScreenPolicy
    redacted: Redacted


def demo(
    task: Annotated[
        list[str] | None,
        typer.Option(help="Scenario to run instead of the five of the demo; repeatable."),
    ] = None,
    workers: Annotated[int, typer.Option(min=1, max=8, help="SGLang workers to start.")] = 2,
    model: Annotated[
        str, typer.Option(help="Path or name of a model; `nano` is the bundled one.")
    ] = "nano",
    device: Annotated[
        Literal["cpu", "cuda"] | None,
        typer.Option(help="cpu or cuda. (default: cuda where there is a GPU)"),
    ] = None,
    router: Annotated[
        str | None, typer.Option(help="Use this running router and start nothing.")
    ] = None,
    max_turns: Annotated[int, typer.Option(min=1, help="Most turns a task.")] = 8,
    recordings: Annotated[
        Path, typer.Option(help="Folder for the recordings and the page.")
    ] = Path("recordings"),
    keep_alive: Annotated[
        bool, typer.Option("--keep-alive", help="Leave router and workers running until Ctrl-C.")
    ] = False,
    mask: Mask = None,
    secret: Secret = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the results as JSON.")] = False,
    policy: Policy = DEFAULT.policy,
    cell: Cell = None,
    positions: PositionsOption = DEFAULT.positions,
    vision_context: Context = DEFAULT.vision_context,
    preset: PresetOption = None,
    pruning: PruningOption = None,
    eviction: EvictionOption = None,
) -> None:
    """Start SGLang workers and a router, let an agent do five tasks in a browser, show the result.

    Everything runs on this machine, and everything that is started is stopped at the end.
    """
    if router is not None and keep_alive:
        raise InvalidRequest(
            "--keep-alive does not go with --router", hint="that router runs on anyway"
        )
    options = DemoOptions(
        tasks=tuple(task or TASKS),
        workers=workers,
        model=model,
        device=device,
        router=router,
        max_turns=max_turns,
        recordings=recordings,
        keep_alive=keep_alive,
        as_json=as_json,
        screens=screen_policy(policy, cell, positions, vision_context, preset, pruning, eviction),
        redacted=redacted(mask, secret),
    )
    failed = run_until_signal(_demo(options))
    if failed:
        raise typer.Exit(1)


async def _demo(options: DemoOptions) -> bool:
    """Returns whether a run ended by an error of the machinery."""
    from agentserve.browser.launch import launch_browser
    from agentserve.browser.scenarios import load_scenario
    from agentserve.cli.demo_view import DemoView
    from agentserve.replay import RunView, read_recording, write_run_page

    scenarios = [load_scenario(name, SEED) for name in options.tasks]
    begun = time.monotonic()
    view = DemoView(err, [scenario.name for scenario in scenarios])
    async with _router(options, view) as client:
        with view:
            async with launch_browser() as browser:
                ready_s = time.monotonic() - begun
                runs = [
                    RunView(scenario.name, read_recording(folder))
                    for scenario in scenarios
                    for folder in [await _one(client, browser, scenario, options, view)]
                ]
            page = options.recordings / f"demo-{datetime.now(UTC):%Y%m%d-%H%M%S}.html"
            facts = _facts(options)
            await asyncio.to_thread(
                write_run_page, page, runs, title="agentserve demo", facts=facts
            )
        _tell(options, view, page, ready_s, time.monotonic() - begun)
        if options.keep_alive:
            await _keep_alive(client)
    return any(run.recording.end is None or run.recording.end.end == "error" for run in runs)


def _facts(options: DemoOptions) -> list[tuple[str, str]]:
    note = " (8.7 million parameters, trained on MiniWoB++ pages only)"
    return [
        ("agentserve", __version__),
        ("policy", options.screens.policy),
        ("model", options.model + (note if options.model == "nano" else "")),
        ("made", f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC"),
    ]


@asynccontextmanager
async def _router(options: DemoOptions, view: DemoView) -> AsyncIterator[RouterClient]:
    """A client of the given router, or of a stack that lives as long as the block."""
    from agentserve.cli.stack import StackOptions, local_stack
    from agentserve.core.config import ROUTER_PORT, api_key

    if options.router is not None:
        async with RouterClient(options.router, api_key=api_key()) as client:
            yield client
        return
    stack_options = StackOptions(
        workers=options.workers,
        model=options.model,
        device=options.device,
        router_port=ROUTER_PORT if options.keep_alive else 0,
    )
    with err.status("starting") as spinner:

        def say(text: str) -> None:
            err.print(text) if not err.is_terminal else spinner.update(text)

        async with local_stack(stack_options, say) as stack, RouterClient(stack.router) as client:
            spinner.stop()
            yield client
            err.print("[dim]stopping the workers and the router…[/]")


async def _one(
    client: RouterClient, browser: Any, scenario: Scenario, options: DemoOptions, view: DemoView
) -> Path:
    """Run one task; returns its recording's folder."""
    from agentserve.agents.run import Agent, run_agent

    finished = await run_agent(
        client,
        browser,
        Agent(program="navigator", screens=options.screens),
        scenario,
        RunConfig(max_turns=min(options.max_turns, scenario.max_turns)),
        options.recordings,
        seed=SEED,
        observers=[view.observer(scenario.name)],
        redacted=options.redacted,
    )
    return finished.recording


def _tell(options: DemoOptions, view: DemoView, page: Path, ready_s: float, total_s: float) -> None:
    if options.as_json:
        tasks = [
            {
                "task": row.name,
                "success": row.success,
                "end": row.state,
                "turns": row.turns,
                "prompt_tokens": row.prompt_tokens,
                "cached_tokens": row.cached_tokens,
                "screen_tokens": row.screen_tokens,
                "sent_tokens": row.sent_tokens,
                "median_turn_s": row.median_turn_s,
            }
            for row in view.rows.values()
        ]
        result = {"tasks": tasks, "page": str(page), "ready_s": ready_s, "total_s": total_s}
        out.print_json(json.dumps(result))
        return
    out.print(view.table())
    if options.model == "nano":
        out.print(
            "nano is a tiny model that knows MiniWoB++ pages only: it fails at the admin site"
        )
    out.print(f"ready after {ready_s:.0f} s, done after {total_s:.0f} s")
    out.print(f"the runs as a page: {page}")
    out.print(f"their recordings:   {options.recordings}/")
    shown = f"next: {command('replay', options.recordings, *_where(options))}"
    out.print(shown, style="dim", markup=False, soft_wrap=True)


def _where(options: DemoOptions) -> tuple[str, ...]:
    """How the recordings are replayed on the model that made them, where one can have it."""
    if options.router is not None:
        return ("--router", options.router)
    if options.keep_alive:
        return ()
    # a replay's own worker serves nano
    return ("--local",) if options.model == "nano" else ("--mode", "browser")


async def _keep_alive(client: RouterClient) -> None:
    err.print(f"the router is at [bold]{client.url}[/], its API's description at {client.url}/docs")
    err.print("Ctrl-C stops it and the workers")
    await asyncio.Event().wait()
