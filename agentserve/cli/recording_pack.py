"""``agentserve recording pack`` and ``unpack``: a recording as one file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from agentserve.cli.console import err, plain


def pack(
    folder: Annotated[Path, typer.Argument(help="Folder of the recording.")],
    archive: Annotated[
        Path | None, typer.Argument(help="Zip file to write. (default: beside it, as FOLDER.zip)")
    ] = None,
) -> None:
    """Put a recording into a zip file; the same recording gives the same bytes."""
    from agentserve.replay.bundle.packing import pack as pack_folder

    to = archive or folder.absolute().with_name(f"{folder.absolute().name}.zip")
    _tell(to, pack_folder(folder, to))


def unpack(
    archive: Annotated[Path, typer.Argument(help="Zip file of a recording.")],
    folder: Annotated[
        Path | None, typer.Argument(help="New folder. (default: beside it, without .zip)")
    ] = None,
) -> None:
    """Write a zip file's recording as a folder. Nothing is written outside of it."""
    from agentserve.replay.bundle.packing import unpack as unpack_archive

    beside = archive.absolute()
    stem = beside.stem if beside.suffix == ".zip" else f"{beside.name}.recording"
    to = folder or beside.with_name(stem)
    _tell(to, unpack_archive(archive, to))


def _tell(to: Path, left_out: list[str]) -> None:
    typer.echo(str(to))
    if left_out:
        shown = ", ".join(plain(name) for name in left_out[:10])
        more = f" and {len(left_out) - 10} more" if len(left_out) > 10 else ""
        err.print(f"left out, as no part of a recording: {shown}{more}", markup=False)
