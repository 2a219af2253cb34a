"""What an exporter gives."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Given:
    """Files of another tool's recording."""

    files: Mapping[str, bytes]
    """By their names; one only, where the format is no folder."""
    lost: tuple[str, ...] = ()
    """What the format has no place for, in sentences."""
    warnings: tuple[str, ...] = ()
    """What keeps it from being of use as it is, in sentences."""
    is_folder: bool = False
    """Whether the format is a folder of files, however many."""
