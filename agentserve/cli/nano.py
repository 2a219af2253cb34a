"""``agentserve nano``: the bundled model."""

from __future__ import annotations

import typer

from agentserve.cli import nano_collect, nano_compare, nano_evaluate, nano_train

app = typer.Typer(help="The bundled tiny model.", no_args_is_help=True)


@app.callback()
def _group() -> None:
    pass


@app.command()
def path() -> None:
    """Print the folder of the nano model's checkpoint."""
    from agentserve.nano.store import nano_path

    typer.echo(nano_path())


app.command("collect")(nano_collect.collect)
app.command("evaluate")(nano_evaluate.evaluate)
app.command("compare")(nano_compare.compare)
app.command("train")(nano_train.train)
app.command("export")(nano_train.export)
