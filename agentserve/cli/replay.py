"""``agentserve replay``: recordings as regression tests, outside of pytest."""

from __future__ import annotations

import json
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from agentserve.cli.console import err, out, run_until_signal
from agentserve.cli.redaction import secret_given
from agentserve.cli.stage import Stage
from agentserve.core.errors import InvalidRequest

if TYPE_CHECKING:
    from agentserve.client import RouterClient
    from agentserve.regression.find import Found
    from agentserve.regression.options import ReplayOptions
    from agentserve.replay import Replayed

DIFFERENT = 3
"""Exit code of replays that found differences."""


@dataclass(frozen=True)
class _Asked:
    mode: str | None
    router: str | None
    local: bool
    headed: bool
    tolerance_px: float | None
    network: Literal["live", "recorded"]
    on_miss: Literal["fail", "live"]
    go_by_unsupported: bool
    secrets: tuple[str, ...]


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
            help="CSS px by which points may differ and still be the same. "
            "(default: the recording's expect.json, else 12)",
        ),
    ] = None,
    network: Annotated[
        Literal["live", "recorded"],
        typer.Option(
            help="Of the mode browser: recorded answers pages from the recording; live compares "
            "what they fetch with it, where it has that."
        ),
    ] = "live",
    on_miss: Annotated[
        Literal["fail", "live"],
        typer.Option(help="With --network recorded: what a request gets that was not recorded."),
    ] = "fail",
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
            "divprune:0.5, after:snapkv:0.5, off. (default: as recorded)"
        ),
    ] = None,
    headed: Annotated[bool, typer.Option("--headed", help="Show the browser.")] = False,
    update: Annotated[
        bool,
        typer.Option("--update", help="Accept what differs: it is expected from now on."),
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

    Exit code 0: all the same, or accepted; 3: something differs; 1: an error; 2: wrong usage.
    """
    from agentserve.regression.find import find_recordings

    if step and not update:
        raise InvalidRequest("--step says what --update accepts", hint="add --update")
    asked = _Asked(
        mode, router, local, headed, tolerance, network, on_miss, go_by_unsupported,
        tuple(secret or ()),
    )  # fmt: skip
    found = find_recordings(recordings)
    if mode == "engine":
        from agentserve.cli.replay_engine import replay_engines

        replayed = run_until_signal(replay_engines(found, worker, against, setting))
    elif worker or against or setting:
        raise InvalidRequest(
            "--worker, --against and --setting are of the mode engine", hint="add --mode engine"
        )
    else:
        replayed = run_until_signal(_replay_all(found, asked))
    if update:
        _accept(replayed, step)
    _write(replayed, html, junit)
    _tell(replayed, html, as_json)
    reports = [one.report for one in replayed]
    if any(report.error is not None for report in reports):
        raise typer.Exit(1)
    if not update and not all(report.same for report in reports):
        raise typer.Exit(DIFFERENT)


async def _replay_all(found: list[Found], asked: _Asked) -> list[Replayed]:
    from agentserve.cli.router_or_local import router_or_local
    from agentserve.regression.parts import Parts
    from agentserve.regression.replaying import replay_one
    from agentserve.replay import read_recording

    recordings = [(one.name, read_recording(one.path)) for one in found]
    options = [_options(recording, asked) for _, recording in recordings]
    with Stage() as stage:

        def start() -> AbstractAsyncContextManager[RouterClient]:
            return router_or_local(asked.router, local=asked.local, status=stage.say)

        steps = stage.task("steps", sum(len(recording.steps) for _, recording in recordings))
        async with Parts(start, headed=asked.headed) as parts:
            return [
                await replay_one(parts, recording, name, chosen, lambda _: steps())
                for (name, recording), chosen in zip(recordings, options, strict=True)
            ]


def _options(recording: object, asked: _Asked) -> ReplayOptions:
    from agentserve.regression.options import ReplayOptions, default_mode

    return ReplayOptions(
        mode=asked.mode or default_mode(recording),
        tolerance_px=asked.tolerance_px,
        network=asked.network,
        on_miss=asked.on_miss,
        go_by_unsupported=asked.go_by_unsupported,
        secrets={name: secret_given(name) for name in asked.secrets},
    )


def _accept(replayed: list[Replayed], steps: list[int] | None) -> None:
    from agentserve.regression.accepting import accept_replayed
    from agentserve.replay.compare.accepting import acceptable

    for one in replayed:
        if one.report.error is None and acceptable(one.report):
            accept_replayed(one, steps)
            err.print(f"accepted: {one.recording.path / 'expect.json'}")


def _write(replayed: list[Replayed], html: Path | None, junit: Path | None) -> None:
    if junit is not None:
        from agentserve.replay.junit import write_junit

        write_junit(junit, [one.report for one in replayed])
        err.print(f"written: {junit}")
    if html is not None:
        from agentserve.replay.pages.replay import write_replay_page

        write_replay_page(html, replayed, title="agentserve replay")
        err.print(f"written: {html}")


def _tell(replayed: list[Replayed], html: Path | None, as_json: bool) -> None:
    from agentserve.replay.summary import replay_summary, replays_summary

    reports = [one.report for one in replayed]
    if as_json:
        out.print_json(json.dumps([report.model_dump(mode="json") for report in reports]))
    elif len(reports) == 1:
        out.print(replay_summary(reports[0], page=html))
    else:
        out.print(replays_summary(reports, page=html))
