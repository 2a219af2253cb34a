"""Files for another tool, written whole or not at all."""

from __future__ import annotations

import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from agentserve.core.errors import InvalidRequest, RecordingError
from agentserve.replay.exporters.given import Given


def write_given(target: Path, given: Given) -> list[Path]:
    """A format of one file is written as ``target``, or into it when it is a folder; of one that is
    a folder, ``target`` is the new or empty one. Returns what was written.

    Raises InvalidRequest where something is there already, and RecordingError when the disk
    refuses; then nothing is written.
    """
    if given.is_folder:
        if os.path.lexists(target) and not _is_empty(target):
            raise _taken(target)
        with _beside(target) as folder:
            folder.mkdir()
            for name, data in given.files.items():
                (folder / name).write_bytes(data)
        return [target / name for name in given.files]
    ((name, data),) = given.files.items()
    path = target / name if os.path.isdir(target) else target
    if os.path.lexists(path):
        raise _taken(path)
    with _beside(path) as file:
        file.write_bytes(data)
    return [path]


@contextmanager
def _beside(target: Path) -> Iterator[Path]:
    """A hidden name, which becomes ``target`` when all is written, and else is removed."""
    hidden = target.with_name(f".agentserve-{secrets.token_hex(8)}")
    try:
        hidden.parent.mkdir(parents=True, exist_ok=True)
        yield hidden
        hidden.rename(target)
    except OSError as error:
        raise RecordingError(f"cannot write {target}: {error.strerror or error}") from error
    finally:  # also when it is interrupted; once renamed, there is nothing
        shutil.rmtree(hidden, ignore_errors=True)
        with suppress(OSError):
            hidden.unlink(missing_ok=True)


def _is_empty(path: Path) -> bool:
    if os.path.islink(path) or not os.path.isdir(path):
        return False
    try:
        return not os.listdir(path)
    except OSError:  # what cannot be looked into is no new folder
        return False


def _taken(path: Path) -> InvalidRequest:
    return InvalidRequest(f"{path} is there already", hint="choose another --out")
