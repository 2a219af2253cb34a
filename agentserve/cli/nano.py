"""``agentserve nano``: the bundled model."""

from __future__ import annotations

import typer

from agentserve.cli import nano_evaluate

app = typer.Typer(help="The bundled tiny model.", no_args_is_help=True)


@app.callback()
def _group() -> None:
    pass


@app.command()
def path() -> None:
    """Build the nano model if it is not there yet, and print its folder."""
    from agentserve.nano.store import nano_path

    typer.echo(nano_path())


app.command("evaluate")(nano_evaluate.evaluate)
