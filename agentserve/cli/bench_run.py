"""What the benchmarks have in common: their worker, their progress, the options they share."""

from __future__ import annotations

import asyncio
import shlex
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from agentserve.cli.console import err
from agentserve.core.errors import InvalidRequest

if TYPE_CHECKING:
    from agentserve.bench.origin import Origin
    from agentserve.bench.worker import BenchWorker

FORMATS = (".png", ".svg", ".pdf")

FoldersArgument = Annotated[
    list[Path] | None,
    typer.Argument(help="Folders of screenshots, each played in the order of its names."),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print the figures as JSON.")]
UrlOption = Annotated[str | None, typer.Option(help="Use this running worker and start none.")]
ModelOption = Annotated[
    str, typer.Option(help="Path or name of a model; `nano` is the bundled one.")
]
TurnsOption = Annotated[int | None, typer.Option(min=1, help="Most turns of each. (default: all)")]


@asynccontextmanager
async def bench_worker(
    url: str | None, model: str, arguments: tuple[str, ...] = ()
) -> AsyncIterator[BenchWorker]:
    """The worker at ``url``, or one of ``model`` that is started for as long as the block runs,
    with further ``arguments`` of ``agentserve worker``."""
    from agentserve.bench.worker import BenchWorker
    from agentserve.cli.stack import StackOptions, local_worker

    if url is None:
        options = StackOptions(model=model, worker_arguments=arguments)
        async with (
            local_worker(options, lambda text: err.print(text)) as started,
            bench_worker(started, model) as worker,
        ):
            yield worker
        return
    worker = await asyncio.to_thread(BenchWorker, url)
    try:
        yield worker
    finally:
        worker.close()


def check_plot(plot: Path | None) -> None:
    """What would be a pity to find out at the end. Raises InvalidRequest."""
    if plot is None:
        return
    if plot.suffix not in FORMATS:
        raise InvalidRequest(f"--plot {plot}: the name must end in {', '.join(FORMATS)}")
    if not plot.parent.is_dir():
        raise InvalidRequest(f"--plot: there is no folder {plot.parent}")
    try:
        import matplotlib  # noqa: F401
    except ModuleNotFoundError:
        raise InvalidRequest(
            "--plot needs matplotlib", hint='pip install "agentserve[plot]"'
        ) from None


def origin() -> Origin:
    """Of the running command."""
    from agentserve.bench.origin import Origin
    from agentserve.nano.evaluate.provenance import commit

    words = [Path(word).name if word.startswith("/") else word for word in sys.argv[1:]]
    return Origin(command=shlex.join(["agentserve", *words]), commit=commit())
