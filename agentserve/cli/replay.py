"""``agentserve replay``: recordings as regression tests, outside of pytest."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from agentserve.cli.console import err, out, run_until_signal
from agentserve.cli.replay_options import Asked, check_file
from agentserve.cli.stage import Stage
from agentserve.core.errors import AgentServeError

if TYPE_CHECKING:
    from agentserve.client import RouterClient
    from agentserve.regression.find import Found
    from agentserve.replay import Replayed

DIFFERENT = 3
"""Exit code of replays that found differences."""


def replay(
    recordings: Annotated[
        list[Path], typer.Argument(help="Recordings, or folders that hold some.")
    ],
    mode: Annotated[
        Literal["model", "browser", "full", "engine"] | None,
        typer.Option(
            help="model: the recorded screens through a router; browser: the recorded actions on "
            "the live pages; full: the agent does the task anew; engine: the same prompts on two "
            "workers, or under two settings. "
            "(default: model for an agent's recording, else browser)"
        ),
    ] = None,
    router: Annotated[
        str | None,
        typer.Option(help="Router to use. (default: $AGENTSERVE_ROUTER or this machine's)"),
    ] = None,
    local: Annotated[
        bool, typer.Option("--local", help="Start a worker and a router for this replay alone.")
    ] = False,
    tolerance: Annotated[
        float | None,
        typer.Option(
            min=0,
            help="CSS px by which points may differ and still be the same, in every step. "
            "(default: the recording's expect.json, else 12)",
        ),
    ] = None,
    network: Annotated[
        Literal["live", "recorded"] | None,
        typer.Option(
            help="Of the mode browser: recorded answers pages from the recording; live compares "
            "what they fetch with it, where it has that. (default: live)"
        ),
    ] = None,
    on_miss: Annotated[
        Literal["fail", "live"] | None,
        typer.Option(
            help="With --network recorded: what a request gets that was not recorded. "
            "(default: fail)"
        ),
    ] = None,
    go_by_unsupported: Annotated[
        bool,
        typer.Option("--skip-unsupported", help="Leave out imported steps that have no equal."),
    ] = False,
    secret: Annotated[
        list[str] | None,
        typer.Option(help="NAME of a secret of the recording, read from the variable; repeatable."),
    ] = None,
    worker: Annotated[
        str | None,
        typer.Option(help="Of the mode engine: the first worker. (default: one is started)"),
    ] = None,
    against: Annotated[
        str | None,
        typer.Option(help="Of the mode engine: the second worker. (default: the first one)"),
    ] = None,
    setting: Annotated[
        str | None,
        typer.Option(
            help="Of the mode engine: how the second side prunes or evicts, as in bench pruning: "
            "flat:0.5, after:attention:0.5, off. (default: as recorded)"
        ),
    ] = None,
    headed: Annotated[bool, typer.Option("--headed", help="Show the browser.")] = False,
    update: Annotated[
        bool,
        typer.Option(
            "--update",
            help="Accept what differs: it alone passes from now on, and not what it takes the "
            "place of.",
        ),
    ] = False,
    also: Annotated[
        bool,
        typer.Option("--also", help="With --update: what passed until now passes as well."),
    ] = False,
    step: Annotated[
        list[int] | None,
        typer.Option(help="With --update: of this step only; repeatable."),
    ] = None,
    html: Annotated[Path | None, typer.Option(help="Write a page of all replays.")] = None,
    junit: Annotated[Path | None, typer.Option(help="Write JUnit XML.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the reports as JSON.")] = False,
) -> None:
    """Replay recordings and show what became different.

    Exit code 0: all the same, or accepted; 3: something differs, or is left that cannot be
    accepted; 1: an error; 2: wrong usage; 130: Ctrl-C, which shows what was found until then.
    """
    from agentserve.regression.find import find_recordings

    asked = Asked(
        mode, router, local, headed, tolerance, network, on_miss, go_by_unsupported,
        tuple(secret or ()), worker, against, setting, update, tuple(step or ()), also,
    )  # fmt: skip
    asked.check()
    check_file("--html", html)
    check_file("--junit", junit)
    found = find_recordings(recordings)
    replayed: list[Replayed] = []
    stopped: AgentServeError | KeyboardInterrupt | None = None
    try:
        run_until_signal(_replay_all(found, asked, replayed.append))
    except (AgentServeError, KeyboardInterrupt) as error:
        if not replayed:  # else what was found until then is told all the same
            raise
        stopped = error
    if isinstance(stopped, KeyboardInterrupt):
        left = "; nothing is accepted" if update else ""
        err.print(f"stopped after {len(replayed)} of {len(found)} recordings{left}")
    elif update:
        replayed = [_accepted(one, step, also) for one in replayed]
    try:
        _write(replayed, html, junit)
    except AgentServeError as error:  # the terminal has room for it
        stopped, html = stopped or error, None
    _tell(replayed, html, as_json, update)
    if stopped is not None:
        raise stopped
    reports = [one.report for one in replayed]
    if any(report.error is not None for report in reports):
        raise typer.Exit(1)
    if not all(report.same for report in reports):
        raise typer.Exit(DIFFERENT)


async def _replay_all(found: list[Found], asked: Asked, done: Callable[[Replayed], None]) -> None:
    from agentserve.cli.replay_engine import replay_engines
    from agentserve.cli.router_or_local import router_or_local
    from agentserve.regression.find import read_found
    from agentserve.regression.parts import Parts
    from agentserve.regression.replaying import replay_one, unread

    if asked.mode == "engine":
        await replay_engines(found, asked.worker, asked.against, asked.setting, done)
        return
    recordings = read_found(found)
    asked.check_steps([each.recording for each in recordings.read])
    options = [asked.options(each.recording) for each in recordings.read]
    if options:
        asked.check_modes({chosen.mode for chosen in options})
    for name, error in recordings.unread.items():
        done(unread(asked.mode or "model", name, error))
    with Stage() as stage:

        def start() -> AbstractAsyncContextManager[RouterClient]:
            return router_or_local(asked.router, local=asked.local, status=stage.say)

        steps = stage.task("steps", sum(len(each.recording.steps) for each in recordings.read))
        async with Parts(start, headed=asked.headed) as parts:
            for each, chosen in zip(recordings.read, options, strict=True):
                done(await replay_one(parts, each.recording, each.name, chosen, lambda _: steps()))


def _accepted(replayed: Replayed, steps: list[int] | None, also: bool) -> Replayed:
    """With what is left to differ. That nothing can be written beside one recording keeps no other
    from being accepted: it is that one's error."""
    from agentserve.regression.accepting import accept_replayed
    from agentserve.replay.compare.accepting import acceptable
    from agentserve.replay.modes.reporting import failure_of

    if replayed.recording is None or not acceptable(replayed.report):
        return replayed
    try:
        left = accept_replayed(replayed, steps, also=also)
    except AgentServeError as error:
        failed = {"error": failure_of(error, None), "same": False}
        return replace(replayed, report=replayed.report.model_copy(update=failed))
    if left.report != replayed.report:
        err.print(f"accepted: {replayed.recording.path / 'expect.json'}")
    return left


def _write(replayed: list[Replayed], html: Path | None, junit: Path | None) -> None:
    if junit is not None:
        from agentserve.replay.junit import write_junit

        write_junit(junit, [one.report for one in replayed])
        err.print(f"written: {junit}")
    if html is not None:
        from agentserve.replay.pages.replay import write_replay_page

        write_replay_page(html, replayed, title="agentserve replay")
        err.print(f"written: {html}")


def _tell(replayed: list[Replayed], html: Path | None, as_json: bool, update: bool) -> None:
    from agentserve.replay.summary import replay_summary, replays_summary

    reports = [one.report for one in replayed]
    more = None if update else "--update"
    if as_json:
        out.print_json(json.dumps([report.model_dump(mode="json") for report in reports]))
    elif len(reports) == 1:
        out.print(replay_summary(reports[0], page=html, update=more))
    else:
        out.print(replays_summary(reports, page=html, update=more))
