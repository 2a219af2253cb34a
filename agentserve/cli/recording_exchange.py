"""``agentserve recording import`` and ``export``: recordings of other tools, and for them."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Annotated

import typer

from agentserve.cli.console import err, out, plain
from agentserve.cli.import_report import ImportReport
from agentserve.cli.redaction import Mask, Secret, redacted
from agentserve.core.errors import InvalidRequest

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]

_ID_CHARS = 64


def import_recording(
    source: Annotated[
        Path, typer.Argument(metavar="FILE|FOLDER", help="What the other tool recorded.")
    ],
    format_name: Annotated[
        str | None,
        typer.Option(
            "--format",
            help="chrome-recorder, playwright-trace, playwright-codegen, osworld, agentnet or "
            "browser-use. (default: the one that its content fits)",
        ),
    ] = None,
    root: Annotated[Path, typer.Option("--out", help="Folder of recordings to put it in.")] = Path(
        "recordings"
    ),
    recording_id: Annotated[
        str | None, typer.Option("--id", help="Its name there. (default: the source's)")
    ] = None,
    task: Annotated[
        str | None, typer.Option(help="What was to be done. (default: what the source says)")
    ] = None,
    mask: Mask = None,
    secret: Secret = None,
    as_json: AsJson = False,
) -> None:
    """Take over a recording of another tool, and tell what of it could not be taken over."""
    from dataclasses import replace

    from agentserve.replay.bundle.format import MAX_TASK_CHARS
    from agentserve.replay.importers.detect import take
    from agentserve.replay.importers.taken import write_taken
    from agentserve.replay.redaction.redaction import Redaction
    from agentserve.replay.redaction.secrets import Secrets

    kept_out = redacted(mask, secret)
    redaction = Redaction(kept_out.masks, Secrets(kept_out.secrets))
    name = _id(recording_id, source)
    if os.path.lexists(root / name):
        raise InvalidRequest(f"there is a recording {root / name}", hint="--id gives another name")
    if task is not None and len(task) > MAX_TASK_CHARS:
        raise InvalidRequest(f"--task has {len(task)} characters; {MAX_TASK_CHARS} is most")
    taken = take(source, format_name)
    if task is not None:
        taken = replace(taken, task=task)
    folder = write_taken(root, name, taken, redaction)
    taken = replace(
        taken,
        task=redaction.secrets.hidden(taken.task),
        url=redaction.secrets.hidden(taken.url),
        steps=tuple(redaction.secrets.hidden_in(step) for step in taken.steps),
        lost=tuple(redaction.secrets.hidden(sentence) for sentence in taken.lost),
    )
    imported = ImportReport(folder, taken, redaction.secrets.names)
    if as_json:
        print(json.dumps(imported.as_json()))
        return
    out.print(
        f"{folder}: {len(taken.steps)} steps of {taken.format}, {imported.screens} with a screen",
        markup=False,
        highlight=False,
    )
    _tell_lost("not taken over", taken.lost)
    for warning in imported.warnings():
        err.print(warning, style="yellow", markup=False, highlight=False)
    out.print(f"next: {imported.next()}", markup=False, highlight=False)


def export_recording(
    recording: Annotated[Path, typer.Argument(help="Folder or zip of the recording.")],
    format_name: Annotated[
        str, typer.Option("--format", help="chrome-recorder, playwright or osworld.")
    ],
    target: Annotated[
        Path,
        typer.Option("--out", help="File or, of osworld, new or empty folder."),
    ],
    base_url: Annotated[
        str | None,
        typer.Option(
            metavar="URL",
            help="Address of the server that has the pages now, as http://127.0.0.1:8000. "
            "(default: the recorded one)",
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Give a recording to another tool, and tell what of it that tool has no place for."""
    from agentserve.replay import read_recording
    from agentserve.replay.exporters.formats import export_format
    from agentserve.replay.exporters.moving import give_at
    from agentserve.replay.exporters.writing import write_given

    known = export_format(format_name)
    given = give_at(known.give, read_recording(recording), base_url)
    written = write_given(target, given)
    if as_json:
        files = [str(path) for path in written]
        told = {"lost": list(given.lost), "warnings": list(given.warnings)}
        print(json.dumps({"format": known.name, "files": files, **told}))
        return
    for path in written:
        out.print(f"{path}: {path.stat().st_size} bytes", markup=False, highlight=False)
    _tell_lost(f"{known.name} has no place for", given.lost)
    for warning in given.warnings:
        err.print(warning, style="yellow", markup=False, highlight=False)
    out.print(f"next: {known.next_step}", markup=False, highlight=False)


def _id(asked: str | None, source: Path) -> str:
    """A name for the recording: letters, digits, - and _."""
    if asked is None:
        stem = source.resolve().name.split(".", 1)[0]
        return re.sub(r"[^A-Za-z0-9_-]+", "-", stem).strip("-")[:_ID_CHARS] or "imported"
    if not re.fullmatch(rf"[A-Za-z0-9_-]{{1,{_ID_CHARS}}}", asked):
        raise InvalidRequest(
            f"--id {asked[:80]!r} is no name of a recording",
            hint=f"1 to {_ID_CHARS} letters, digits, - and _",
        )
    return asked


def _tell_lost(what: str, lost: tuple[str, ...]) -> None:
    if not lost:
        return
    out.print(f"{what}:", markup=False, highlight=False)
    for sentence in lost:  # it may quote the source
        out.print(f"  - {plain(sentence)}", markup=False, highlight=False)
