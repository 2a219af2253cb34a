"""What a file or a folder begins with, for telling formats apart by content."""

from __future__ import annotations

import json
import stat
from functools import cached_property
from pathlib import Path
from typing import Any

from agentserve.core.errors import RecordingError
from agentserve.replay.bundle.format import MAX_STEPS_BYTES
from agentserve.replay.importers.archive import Archive, open_archive
from agentserve.replay.importers.sources import read_json_object, read_source

MAX_NAMES = 10_000
_HEAD_BYTES = 64 * 1024


class Sniffed:
    """A file or folder that was named to be imported; nothing is read twice.

    What is asked for is empty where the source is of another kind; no property raises.
    """

    def __init__(self, path: Path) -> None:
        """Raises RecordingError when there is nothing to read there."""
        self.path = path
        try:
            mode = path.stat().st_mode
        except (OSError, ValueError) as error:
            raise RecordingError(f"{path} cannot be read: {error}") from error
        self.is_folder = stat.S_ISDIR(mode)
        if not self.is_folder and not stat.S_ISREG(mode):
            raise RecordingError(f"{path} is neither a file nor a folder")

    @cached_property
    def names(self) -> frozenset[str]:
        """The names in a folder, or of the members of a zip."""
        try:
            if self.is_folder:
                entries = zip(range(MAX_NAMES), self.path.iterdir(), strict=False)
                return frozenset(entry.name for _, entry in entries)
            if self._head.startswith(b"PK"):
                with open_archive(self.path) as archive:
                    return self._members(archive)
        except (RecordingError, OSError):
            pass
        return frozenset()

    @cached_property
    def object(self) -> dict[str, Any]:
        """The object that a JSON file holds, of the most bytes that any format takes."""
        if self.is_folder or not self._head.lstrip().startswith(b"{"):
            return {}
        try:
            return read_json_object(read_source(self.path, MAX_STEPS_BYTES), self.path.name)
        except RecordingError:
            return {}

    @cached_property
    def first_line(self) -> dict[str, Any]:
        """The object in the first line of a file with one a line."""
        line, newline, rest = self._head.partition(b"\n")
        if not newline or not line.startswith(b"{"):
            return {}
        try:
            value = json.loads(line)
        except (ValueError, RecursionError):
            return {}
        return value if isinstance(value, dict) else {}

    @cached_property
    def _head(self) -> bytes:
        if self.is_folder:
            return b""
        try:
            with self.path.open("rb") as file:
                return file.read(_HEAD_BYTES)
        except OSError:
            return b""

    @staticmethod
    def _members(archive: Archive) -> frozenset[str]:
        return frozenset(archive.names())
