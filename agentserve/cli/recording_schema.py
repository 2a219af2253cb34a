"""``agentserve recording schema``: the format for other languages."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from agentserve.core.errors import RecordingError


def schema(
    out: Annotated[
        Path | None, typer.Option(help="Folder to write one file each to, instead of printing.")
    ] = None,
) -> None:
    """Print the JSON Schemas of a recording's files, by the file's name."""
    from agentserve.replay.bundle.schema import schemas

    if out is None:
        typer.echo(json.dumps(schemas(), indent=2))
        return
    try:
        out.mkdir(parents=True, exist_ok=True)
        for entry, values in schemas().items():
            path = out / f"{entry.partition('.')[0]}.schema.json"
            path.write_text(json.dumps(values, indent=2) + "\n")
            typer.echo(str(path))
    except OSError as error:
        raise RecordingError(
            f"cannot write {error.filename or out}: {error.strerror or error}",
            hint="--out is a folder that can be written to, or a new one",
        ) from error
