"""``agentserve recording``: what can be done with recordings without replaying them. Each command
has a module ``recording_<command>.py`` of its own and is registered at the end of this one."""

from __future__ import annotations

import typer

from agentserve.cli import (
    recording_exchange,
    recording_pack,
    recording_schema,
    recording_show,
    recording_verify,
)

app = typer.Typer(help="Check, show and convert recordings.", no_args_is_help=True)


@app.callback()
def _group() -> None:
    pass


app.command("verify")(recording_verify.verify)
app.command("show")(recording_show.show)
app.command("pack")(recording_pack.pack)
app.command("unpack")(recording_pack.unpack)
app.command("schema")(recording_schema.schema)
app.command("import")(recording_exchange.import_recording)
app.command("export")(recording_exchange.export_recording)
