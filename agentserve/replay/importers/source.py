"""What importers read: bytes and JSON that anyone may have written, bounded before they are used.

Everything here raises RecordingError, which names the file.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pydantic import JsonValue
from pydantic_core import from_json, to_json

from agentserve.core.config import MIB
from agentserve.core.errors import RecordingError
from agentserve.replay.bundle.folder import FolderEntries

MAX_JSON_BYTES = 16 * MIB
MAX_DEPTH = 40
"""Of JSON that is kept: a bundle's line holds it some levels further down, and must be read."""
MAX_ORIGIN_BYTES = 128 * 1024


def read_source(path: Path, limit: int = MAX_JSON_BYTES) -> bytes:
    """The bytes of the file that was asked for."""
    path = path.resolve()
    return FolderEntries(path.parent).read(path.name, limit)


def json_file(path: Path) -> tuple[Path, str]:
    """The folder and the name of a JSON file, or of the only one in a folder."""
    path = path.resolve()
    if not path.is_dir():
        return path.parent, path.name
    names = sorted(one.name for one in path.iterdir() if one.suffix == ".json")
    if len(names) != 1:
        raise RecordingError(
            f"{path.name}: {len(names)} JSON files in the folder", hint="name the one to import"
        )
    return path, names[0]


def json_object(data: bytes, entry: str) -> dict[str, Any]:
    """The JSON object that the bytes are."""
    try:
        value = from_json(data, allow_inf_nan=False)
    except ValueError as error:
        raise RecordingError(f"{entry}: not JSON: {str(error)[:200]}") from error
    check_depth(value, entry)
    return object_of(value, entry)


def object_of(value: object, entry: str) -> dict[str, Any]:
    """The value itself, when it is a JSON object."""
    if not isinstance(value, dict):
        raise RecordingError(f"{entry}: a JSON object belongs here, not {type(value).__name__}")
    return value


def text_in(values: dict[str, Any], *names: str) -> str:
    """The first of these fields that is a text, or nothing."""
    return next((values[name] for name in names if isinstance(values.get(name), str)), "")


def json_lines(data: bytes, entry: str, most: int) -> Iterator[tuple[str, dict[str, Any]]]:
    """The objects of a file with one a line, each with what to call it in an error."""
    lines = data.split(b"\n", most + 1)
    if len(lines) > most + 1:
        raise RecordingError(f"{entry}: more than {most} lines")
    for number, line in enumerate(lines, start=1):
        if line.strip():
            where = f"{entry} line {number}"
            yield where, json_object(line, where)


def check_depth(value: object, entry: str) -> None:
    """Refuses what is nested too deeply to be kept."""
    level = [value]
    for _ in range(MAX_DEPTH):
        level = [inner for outer in level for inner in _inside(outer)]
        if not level:
            return
    raise RecordingError(f"{entry}: nested more than {MAX_DEPTH} levels deep")


def kept(value: JsonValue) -> JsonValue:
    """A step of the source, to be kept with ours; None when it is too large for that."""
    return value if len(to_json(value)) <= MAX_ORIGIN_BYTES else None


def words(value: object, most: int = 80) -> str:
    """A value of the source in an error or a note: quoted and cut, so that it stays a value."""
    text = repr(value)
    return text if len(text) <= most else f"{text[:most]}…"


def _inside(value: object) -> Iterator[object]:
    if isinstance(value, dict):
        yield from value.values()
    elif isinstance(value, list):
        yield from value
