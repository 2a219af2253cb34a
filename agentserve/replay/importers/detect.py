"""Takes a recording of whichever tool wrote it: formats are told apart by content, not by name."""

from __future__ import annotations

from pathlib import Path

from agentserve.core.errors import InvalidRequest, RecordingError
from agentserve.replay.bundle.format import META, STEPS
from agentserve.replay.importers.formats import FORMATS
from agentserve.replay.importers.sniffing import Sniffed
from agentserve.replay.importers.taken import Taken


def take(path: Path, format_name: str | None = None) -> Taken:
    """Read a file or folder of another tool. None: the format that its content fits.

    Raises RecordingError for what no format fits or what is damaged, InvalidRequest for the name of
    no format.
    """
    if format_name is not None:
        for known in FORMATS:
            if known.name == format_name:
                return known.take(path)
        raise InvalidRequest(f"{format_name[:80]!r} is no format", hint=f"known: {_names()}")
    source = Sniffed(path)
    for known in FORMATS:
        if known.fits(source):
            return known.take(path)
    if {META, STEPS} <= {name.rpartition("/")[2] for name in source.names}:
        raise RecordingError(
            f"{path.name} is a recording of agentserve already: there is nothing to import",
            hint="replay it, or show it, as it is: agentserve recording show",
        )
    raise RecordingError(
        f"{path.name} is a recording of no known format",
        hint=f"known: {'; '.join(f'{known.name} ({known.about})' for known in FORMATS)}. "
        "--format says which one it is, and tells what is wrong with it",
    )


def _names() -> str:
    return ", ".join(known.name for known in FORMATS)
