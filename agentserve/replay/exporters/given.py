"""What an exporter gives."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Given:
    """Files of another tool's recording."""

    files: Mapping[str, bytes]
    """By their names, relative to the folder they are written to; one only, without a folder, where
    the format is one file."""
    lost: tuple[str, ...] = ()
    """What the format has no place for, in sentences."""
