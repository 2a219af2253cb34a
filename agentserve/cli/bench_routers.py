"""What the benchmarks of the router have in common: the other routers, and where figures go."""

from __future__ import annotations

from collections.abc import Coroutine
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, TypeVar

import typer

from agentserve.cli.console import err, out, run_until_signal
from agentserve.core.errors import InvalidRequest
from agentserve.core.model import Wire

if TYPE_CHECKING:
    from agentserve.bench.router.targets import Target

T = TypeVar("T")
SglangRouterOption = Annotated[
    Path | None,
    typer.Option("--sglang-router", help="The executable of an installed sglang-router."),
]
SmgOption = Annotated[
    Path | None, typer.Option("--smg", help="The executable of an installed smg.")
]
OutOption = Annotated[
    Path | None, typer.Option("--out", help="Write the figures as JSON into this file as well.")
]


class Targets(NamedTuple):
    chosen: list[Target]
    left_out: dict[str, str]
    """Why, by name."""


def targets_of(sglang_router: Path | None, smg: Path | None, routers: int = 1) -> Targets:
    """Ours, ``routers`` of ours together if they are several, and the others that are given; tells
    what is left out. Raises InvalidRequest for another release than the one that is known."""
    from agentserve.bench.router.targets import OURS, how_to_install, rival, together

    chosen, left_out = [OURS], {}
    if routers > 1:
        try:
            chosen.append(together(routers))
        except InvalidRequest as error:
            left_out[f"{OURS.name} x {routers}"] = error.message
    for kind, executable in (("sglang-router", sglang_router), ("smg", smg)):
        if executable is None:
            left_out[kind] = how_to_install(kind)
        else:
            chosen.append(rival(kind, executable))
    for name, why in left_out.items():
        err.print(f"without {name}: {why}")
    return Targets(chosen, left_out)


def check_out(path: Path | None) -> None:
    """Raises InvalidRequest for a file that cannot be written in the end."""
    if path is not None and not path.parent.is_dir():
        raise InvalidRequest(f"--out: there is no folder {path.parent}")


def report_of(main: Coroutine[Any, Any, T]) -> T:
    """Run a measurement, with uvloop's event loop as the router has it."""
    import asyncio

    import uvloop

    asyncio.set_event_loop_policy(uvloop.EventLoopPolicy())
    return run_until_signal(main)


def written(report: Wire, as_json: bool, path: Path | None) -> bool:
    """Write the figures where they are wanted; whether a table is not wanted."""
    if path is not None:
        path.write_text(report.model_dump_json(indent=1) + "\n")
        err.print(f"written: {path}")
    if as_json:
        out.print_json(report.model_dump_json())
    return as_json
