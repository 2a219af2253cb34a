"""What importers share: reading files that anyone may have written, bounded before they are used.

Everything here raises RecordingError, which names the file.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from pydantic_core import from_json

from agentserve.core.config import MIB
from agentserve.core.errors import RecordingError
from agentserve.core.screens import Size
from agentserve.replay.account import Account
from agentserve.replay.bundle.folder import FolderEntries
from agentserve.replay.bundle.format import MAX_SCREENSHOT_BYTES
from agentserve.replay.bundle.json_size import weight_of
from agentserve.replay.bundle.png import png_size
from agentserve.replay.importers.pictures import png_of

MAX_JSON_BYTES = 16 * MIB
"""Of a file that is read whole."""
MAX_JSON_WEIGHT = 2_000_000
"""Of what is held at once, as ``json_size`` weighs."""
MAX_DEPTH = 40
"""Of JSON: it is stored within a line of a bundle, whose reader has a limit of its own."""
MAX_PICTURES_BYTES = 512 * 2**20
"""Of all pictures of a recording together: they are held until the bundle is written."""
_PLAIN = re.compile(r"[^/\\\x00-\x1f\x7f]{1,255}")


def read_source(path: Path, limit: int = MAX_JSON_BYTES) -> bytes:
    """The bytes of the file that was asked for."""
    path = path.resolve()
    return FolderEntries(path.parent).read(path.name, limit)


def read_lines(data: bytes, entry: str, most: int) -> Iterator[tuple[str, dict[str, Any]]]:
    """The objects of a file with one a line, each with what to call it in an error."""
    check_weight(data, entry)
    lines = data.split(b"\n", most + 1)
    if len(lines) > most + 1:
        raise RecordingError(f"{entry}: more than {most} lines")
    for number, line in enumerate(lines, start=1):
        if line.strip():
            where = f"{entry} line {number}"
            yield where, read_json_object(line, where)


def read_json(data: bytes, entry: str) -> Any:
    """A JSON value. Raises RecordingError naming the entry, also for one that is nested too
    deep, or of too many values."""
    check_weight(data, entry)
    try:
        value = from_json(data, allow_inf_nan=False)
    except ValueError as error:
        raise RecordingError(f"{entry}: not JSON: {str(error)[:200]}") from error
    check_depth(value, entry)
    return value


def read_json_object(data: bytes, entry: str) -> dict[str, Any]:
    """The JSON object that the bytes are."""
    return read_object(read_json(data, entry), entry)


def check_weight(data: bytes, entry: str, most: int = MAX_JSON_WEIGHT) -> int:
    """The weight of JSON that is not parsed yet. Raises RecordingError for more than ``most``."""
    weight = weight_of(data, most)
    if weight > most:
        raise RecordingError(
            f"{entry}: too many values in it to be held in memory",
            hint="import a part of the recording",
        )
    return weight


def check_depth(value: Any, entry: str) -> None:
    """Raises RecordingError for JSON that is nested deeper than ``MAX_DEPTH``."""
    level = [value]
    for _ in range(MAX_DEPTH):
        level = [
            inner
            for outer in level
            if isinstance(outer, dict | list)
            for inner in (outer.values() if isinstance(outer, dict) else outer)
        ]
        if not level:
            return
    raise RecordingError(f"{entry}: JSON nested deeper than {MAX_DEPTH} levels")


def read_object(value: Any, entry: str) -> dict[str, Any]:
    """The value itself. Raises RecordingError when it is no JSON object."""
    if not isinstance(value, dict):
        raise RecordingError(f"{entry}: a JSON object is expected, not {type(value).__name__}")
    return value


def text_in(values: dict[str, Any], *names: str) -> str:
    """The first of these fields that is a text, or nothing."""
    return next((values[name] for name in names if isinstance(values.get(name), str)), "")


def json_file(path: Path) -> tuple[Path, str]:
    """The folder and the name of a JSON file, or of the only one in a folder. Raises
    RecordingError."""
    path = path.resolve()
    if not path.is_dir():
        return path.parent, path.name
    names = sorted(one.name for one in path.iterdir() if one.suffix == ".json")
    if len(names) != 1:
        raise RecordingError(
            f"{path.name}: {len(names)} JSON files in the folder", hint="name the one to import"
        )
    return path, names[0]


def words(value: object, most: int = 80) -> str:
    """A value of the source in an error or a note: quoted and cut, so that it stays a value."""
    text = repr(value)
    return text if len(text) <= most else f"{text[:most]}…"


class Pictures:
    """The pictures of a recording, as PNG, by their SHA-256."""

    def __init__(self, folder: Path, account: Account) -> None:
        self.by_sha: dict[str, bytes] = {}
        self._folder = folder
        self._account = account
        self._bytes = 0

    def add(self, data: bytes, what: str) -> str:
        """Raises RecordingError for what is no picture, and for too many bytes in all."""
        png = png_of(data, what)
        sha = hashlib.sha256(png).hexdigest()
        if sha not in self.by_sha:
            self._bytes += len(png)
            if self._bytes > MAX_PICTURES_BYTES:
                raise RecordingError(
                    f"the pictures of this recording have over {MAX_PICTURES_BYTES} bytes",
                    hint="import a part of it, or with smaller pictures",
                )
            self.by_sha[sha] = png
        return sha

    def named(self, name: Any, where: str, *, within: tuple[str, ...] = ("",)) -> str | None:
        """The picture of that name in the folder, or in one of its folders ``within``, which are
        ours and no part of a file. None when it is not there, which is a loss; ``where`` says who
        names it.

        Raises RecordingError for a name that is more than a name, for links, and as ``add``.
        """
        if not isinstance(name, str) or not _PLAIN.fullmatch(name) or name in {".", ".."}:
            raise RecordingError(
                f"{where}: {str(name)[:100]!r} is not the plain name of a picture",
                hint="pictures lie beside the file that names them",
            )
        for folder in within:
            try:
                data = FolderEntries(self._folder).read(f"{folder}{name}", MAX_SCREENSHOT_BYTES)
            except RecordingError as error:
                if isinstance(error.__cause__, FileNotFoundError):
                    continue
                raise
            return self.add(data, name)
        self._account.lose(f"{where}: the picture {name[:200]!r} is missing")
        return None

    def viewport(self, screens: Iterable[str | None], assumed: Size) -> Size:
        """The first one's size; that others have another is a loss, and that there is none."""
        sizes = [self.size(sha) for sha in screens if sha]
        if not sizes:
            self._account.lose(f"no picture tells the screen's size; {assumed} is assumed")
            return assumed
        for number, size in enumerate(sizes, start=1):
            if size != sizes[0]:
                self._account.lose(f"picture {number} has {size} px, the first one {sizes[0]}")
        return sizes[0]

    def size(self, sha: str) -> Size:
        """Of a picture, in px."""
        return png_size(self.by_sha[sha])
