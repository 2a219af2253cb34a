"""``agentserve replay``: feed a recording back through a router."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from agentserve.cli.console import err, out, run_until_signal
from agentserve.core.errors import RecordingError

if TYPE_CHECKING:
    from agentserve.replay import Recording, ReplayReport

DIFFERENT = 3
"""Exit code of a replay that found differences."""


def replay(
    recording: Annotated[Path, typer.Argument(help="Folder or zip file of the recording.")],
    router: Annotated[
        str | None,
        typer.Option(help="Router to use. (default: $AGENTSERVE_ROUTER or this machine's)"),
    ] = None,
    local: Annotated[
        bool, typer.Option("--local", help="Start a worker and a router for this replay alone.")
    ] = False,
    tolerance: Annotated[
        float, typer.Option(help="CSS px by which points may differ and still be the same.")
    ] = 0.0,
    as_json: Annotated[bool, typer.Option("--json", help="Print the report as JSON.")] = False,
) -> None:
    """Send a recording's screens through the router, turn by turn, and compare the actions.

    Exit code 0: all the same; 3: something differs; 1: an error; 2: wrong usage.
    """
    report = run_until_signal(_replay(_read(recording), router, local, tolerance))
    if as_json:
        out.print_json(report.model_dump_json())
    else:
        from agentserve.replay import replay_summary

        out.print(replay_summary(report))
    if report.error is not None:
        raise typer.Exit(1)
    if not report.same:
        raise typer.Exit(DIFFERENT)


def _read(folder: Path) -> Recording:
    from agentserve.replay import read_recording

    if not folder.is_file() and not (folder / "meta.json").exists():
        inside = sorted(str(path.parent) for path in folder.glob("*/meta.json"))
        what = "is not a recording" if folder.is_dir() else "does not exist"
        raise RecordingError(
            f"{folder} {what}",
            hint=f"in it are: {', '.join(inside[-5:])}" if inside else "see recordings/",
        )
    return read_recording(folder)


async def _replay(
    recording: Recording, router: str | None, local: bool, tolerance: float
) -> ReplayReport:
    from agentserve.cli.router_or_local import router_or_local
    from agentserve.replay import replay_model as play

    with err.status("starting") as spinner:
        total = len(recording.steps)

        def say(text: str) -> None:
            err.print(text) if not err.is_terminal else spinner.update(text)

        async with router_or_local(router, local=local, status=say) as client:
            return await play(
                client,
                recording,
                expectations=None,
                on_step=lambda step: spinner.update(f"step {step.index + 1} of {total}"),
            )
