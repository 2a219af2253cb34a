"""Where a bundle's entries come from: a folder (folder.py) or a zip file (archive.py).

Both sides are hostile. An entry is named as in format.py, relative and with ``/``; whatever is not
as it should be raises a RecordingError that names it.
"""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

from agentserve.core.errors import RecordingError

MAX_ENTRIES = 40_000
_MAX_SHOWN = 120
_AGAIN = "take the recording again from where it was made: this one was changed or damaged"


class Entries(Protocol):
    """The files of one bundle. Every method raises RecordingError."""

    path: Path
    """Of the folder or the zip file."""
    name: str
    """The same for people: what messages begin with."""

    def has(self, entry: str) -> bool:
        """Whether something of that name is there, good or bad."""
        ...

    def check(self, entry: str, limit: int) -> None:
        """Raises what ``read`` would raise before it reads."""
        ...

    def read(self, entry: str, limit: int) -> bytes:
        """The bytes of an entry; one of more than ``limit`` bytes is refused."""
        ...

    def names(self) -> list[str]:
        """What is there, sorted; a folder that no bundle has ends with ``/``, without what is in
        it. More than MAX_ENTRIES are refused."""
        ...


def label(path: Path) -> str:
    """The last name of a path, also of ``.``"""
    return path.name or path.absolute().name or str(path)


def shown(entry: str) -> str:
    """A name from a bundle, fit for a message: cut, and quoted unless it is plain."""
    cut = entry if len(entry) <= _MAX_SHOWN else entry[: _MAX_SHOWN - 1] + "…"
    return cut if cut.isprintable() and cut.strip() == cut != "" else ascii(cut)


def missing(name: str, entry: str) -> RecordingError:
    return RecordingError(f"{name}: {entry} is missing", hint=_AGAIN, details={"entry": entry})


def too_large(name: str, entry: str, limit: int) -> RecordingError:
    return RecordingError(
        f"{name}: {shown(entry)} is larger than {limit} bytes",
        hint="nothing that records writes such an entry",
        details={"entry": shown(entry)},
    )


def damaged(name: str, entry: str, reason: str, hint: str = "") -> RecordingError:
    return RecordingError(
        f"{name}: {shown(entry)}: {reason}", hint=hint or _AGAIN, details={"entry": shown(entry)}
    )


def too_many(name: str) -> RecordingError:
    return RecordingError(
        f"{name}: more than {MAX_ENTRIES} entries",
        hint="a recording has its own folder or zip file, with nothing else in it",
    )
