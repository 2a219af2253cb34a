"""The command line: the only place that joins the parts. Each command imports what it needs when
it runs, so that `agentserve serve` never loads torch and `--help` is quick."""

from __future__ import annotations

import sys

import typer

from agentserve import __version__
from agentserve.cli import (
    bench,
    cost,
    demo,
    keys,
    nano,
    record,
    recording,
    replay,
    run,
    scenarios,
    serve,
    top,
    worker,
    workers,
)
from agentserve.cli.console import report_error
from agentserve.core.errors import AgentServeError

app = typer.Typer(
    name="agentserve",
    help="Serve screenshot agents on SGLang: run them, talk to them over REST, replay them.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"agentserve {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: bool = typer.Option(
        False, "--version", callback=_print_version, is_eager=True, help="Print the version."
    ),
) -> None:
    pass


app.command("demo")(demo.demo)
app.command("serve")(serve.serve)
app.command("worker", context_settings={"allow_extra_args": True, "ignore_unknown_options": True})(
    worker.worker
)
app.command("run")(run.run)
app.command("record")(record.record)
app.command("replay")(replay.replay)
app.command("scenarios")(scenarios.scenarios)
app.command("cost")(cost.cost)
app.command("top")(top.top)
app.add_typer(workers.app, name="workers")
app.add_typer(keys.app, name="keys")
app.add_typer(recording.app, name="recording")
app.add_typer(nano.app, name="nano")
app.add_typer(bench.app, name="bench")


def main() -> None:
    """Entry point: every AgentServeError becomes a message, a hint and exit code 1."""
    try:
        app()
    except AgentServeError as error:
        report_error(error)
        sys.exit(1)
    except KeyboardInterrupt:
        sys.exit(130)
