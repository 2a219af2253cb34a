"""``agentserve run``: one agent on one page."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from agentserve.cli.console import command, err, out, run_until_signal
from agentserve.cli.pages import Animations, FixedTime, Har, RandomSeed, page_settings
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
from agentserve.core.config import RunConfig
from agentserve.core.errors import InvalidRequest
from agentserve.core.screens import MAX_SIDE, Size

if TYPE_CHECKING:
    from agentserve.agents.run import Agent, Finished, PageTarget, Redacted
    from agentserve.browser.scenarios import Scenario
    from agentserve.core.pages import PageSettings
    from agentserve.core.runs import RunSummary

_DEFAULT = RunConfig()
NOT_ACHIEVED = 3
"""Exit code of a run that went well but whose task was not achieved."""


def run(
    program: Annotated[
        str, typer.Option(help="Program to run: a registered name, or the path of its file.")
    ] = "navigator",
    task: Annotated[str | None, typer.Option(help="What the agent shall do on --url.")] = None,
    url: Annotated[str | None, typer.Option(help="Page to start on.")] = None,
    scenario: Annotated[
        str | None,
        typer.Option(help="Instead of --url and --task: a scenario, as miniwob/click-test."),
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of a MiniWoB++ scenario.")] = 0,
    router: Annotated[
        str | None,
        typer.Option(help="Router to use. (default: $AGENTSERVE_ROUTER or this machine's)"),
    ] = None,
    local: Annotated[
        bool, typer.Option("--local", help="Start a worker and a router for this run alone.")
    ] = False,
    viewport: Annotated[
        str | None,
        typer.Option(help="Browser viewport in CSS px, with --url (default: 1120x672)"),
    ] = None,
    scale: Annotated[
        float | None, typer.Option(help="Model px per CSS px, with --url (default: 1)")
    ] = None,
    allow: Annotated[
        list[str] | None, typer.Option(help="Further origin the model may go to; repeatable.")
    ] = None,
    policy: Policy = DEFAULT.policy,
    cell: Cell = None,
    positions: PositionsOption = DEFAULT.positions,
    vision_context: Context = DEFAULT.vision_context,
    preset: PresetOption = None,
    pruning: PruningOption = None,
    eviction: EvictionOption = None,
    model: Annotated[str | None, typer.Option(help="Only workers of this model.")] = None,
    max_turns: Annotated[
        int | None, typer.Option(min=1, help="Most turns. (default: the scenario's, else 15)")
    ] = None,
    recordings: Annotated[
        Path, typer.Option(help="Folder that the recording is written to.")
    ] = Path("recordings"),
    har: Har = False,
    aria: Annotated[
        bool, typer.Option("--aria", help="Record each page's aria snapshot, to compare it too.")
    ] = False,
    random_seed: RandomSeed = None,
    fixed_time: FixedTime = None,
    animations: Animations = True,
    mask: Mask = None,
    secret: Secret = None,
    patches: Annotated[
        bool, typer.Option("--patches", help="Send only what has changed of a screenshot.")
    ] = False,
    headed: Annotated[bool, typer.Option("--headed", help="Show the browser.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,
) -> None:
    """Run an agent in a browser and record it.

    Exit code 0: done; 3: the task was not achieved; 1: an error; 2: wrong usage.
    """
    from agentserve.agents.run import Agent
    from agentserve.cli.router_or_local import check_router

    check_router(router, local=local)
    screens = screen_policy(policy, cell, positions, vision_context, preset, pruning, eviction)
    agent = Agent(program=program, screens=screens, model=model)
    target = _target(scenario, seed, url, task, viewport, scale, tuple(allow or ()))
    turns = max_turns or getattr(target, "max_turns", _DEFAULT.max_turns)
    config = RunConfig(max_turns=turns, headed=headed)
    finished = run_until_signal(
        _run(
            agent,
            target,
            config,
            recordings,
            seed if scenario else None,
            router,
            local,
            patches,
            redacted(mask, secret),
            page_settings(fixed_time, random_seed, animations, har),
            aria,
        )
    )
    _tell(finished, router, local, as_json)
    if finished.summary.end == "error":
        raise typer.Exit(1)
    if not _achieved(finished.summary):
        raise typer.Exit(NOT_ACHIEVED)


def _achieved(summary: RunSummary) -> bool:
    """By the task's own check where it has one, else by how the agent ended."""
    if summary.success is not None:
        return summary.success
    return summary.end == "done"


def _target(
    scenario: str | None,
    seed: int,
    url: str | None,
    task: str | None,
    viewport: str | None,
    scale: float | None,
    allow: tuple[str, ...],
) -> PageTarget | Scenario:
    from agentserve.agents.run import PageTarget
    from agentserve.browser.scenarios import load_scenario

    if (scenario is None) == (url is None or task is None):
        raise InvalidRequest(
            "give either --scenario, or both --url and --task",
            hint="for example: agentserve run --scenario miniwob/click-test",
        )
    if scenario is not None:
        if url or task or viewport or scale or allow:
            raise InvalidRequest(
                "--url, --task, --viewport, --scale and --allow do not go with --scenario",
                hint="a scenario brings its own page, goal and viewport",
            )
        return load_scenario(scenario, seed)
    size = parse_size(viewport or "1120x672")
    return PageTarget(url=url, task=task, viewport=size, scale=scale or 1.0, allow=allow)


def parse_size(text: str) -> Size:
    """``1120x672`` as a Size. Raises InvalidRequest."""
    match = re.fullmatch(r"(\d{1,9})x(\d{1,9})", text)
    if match is None:
        raise InvalidRequest(f"--viewport is WIDTHxHEIGHT, as 1120x672, not {text!r}")
    width, height = int(match[1]), int(match[2])
    if not (1 <= width <= MAX_SIDE and 1 <= height <= MAX_SIDE):
        raise InvalidRequest(f"--viewport {text}: each side is 1 to {MAX_SIDE} px")
    return Size(width=width, height=height)


async def _run(
    agent: Agent,
    target: PageTarget | Scenario,
    config: RunConfig,
    recordings: Path,
    seed: int | None,
    router: str | None,
    local: bool,
    patches: bool,
    redacted: Redacted,
    page: PageSettings,
    aria: bool,
) -> Finished:
    from agentserve.agents.run import run_agent
    from agentserve.browser.launch import launch_browser
    from agentserve.cli.narrate import Narrator
    from agentserve.cli.router_or_local import router_or_local
    from agentserve.replay.redaction.secrets import Secrets

    path = agent.program_file()
    programs = (path,) if path else ()
    with err.status("starting") as spinner:

        def say(text: str) -> None:
            err.print(text) if not err.is_terminal else spinner.update(text)

        async with (
            router_or_local(
                router, local=local, programs=programs, patches=patches, status=say
            ) as client,
            launch_browser(headed=config.headed) as browser,
        ):
            spinner.update("running")
            return await run_agent(
                client,
                browser,
                agent,
                target,
                config,
                recordings,
                seed=seed,
                observers=[Narrator(err.print, Secrets(redacted.secrets))],
                redacted=redacted,
                page=page,
                aria=aria,
            )


def _tell(finished: Finished, router: str | None, local: bool, as_json: bool) -> None:
    if as_json:
        result = {"recording": str(finished.recording)} | finished.summary.model_dump(mode="json")
        out.print_json(json.dumps(result))
        return
    err.print(f"recorded in {finished.recording}")
    if finished.summary.turns:
        where = ["--router", router] if router else ["--local"] if local else []
        shown = f"next: {command('replay', finished.recording, *where)}"
        err.print(shown, style="dim", markup=False)
