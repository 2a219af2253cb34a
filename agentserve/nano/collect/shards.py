"""Shards of collected screens: written by one collector, read by a trainer at the same time.

``<mode>-<first>-<end>.jsonl`` and ``.pack`` hold the screens of the seeds first … end - 1. The
``.jsonl`` appears, complete, when its ``.pack`` is complete: what has none does not count.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any

_NAME = re.compile(r"[a-z]+-(?P<first>\d+)-(?P<end>\d+)\.(?:jsonl|pack)")


class ShardWriter:
    """One shard in the making; ``finish`` gives it its name, ``drop`` takes it away."""

    def __init__(self, folder: Path, mode: str, first: int) -> None:
        """``first`` is the shard's first seed. Raises FileExistsError when another collector makes
        that shard, OSError when the folder is not writable."""
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder
        self._stem = f"{mode}-{first:010d}"
        self._pack_path = folder / f".{self._stem}.pack.part"
        self._pack = self._pack_path.open("xb")
        self._lines: list[str] = []

    def __len__(self) -> int:
        return len(self._lines)

    def add(self, record: dict[str, Any], png: bytes) -> None:
        """Append one screen; ``record["png"]`` becomes its place in the pack."""
        record = {**record, "png": [self._pack.tell(), len(png)]}
        self._pack.write(png)
        self._lines.append(json.dumps(record, ensure_ascii=False, separators=(",", ":")))

    def finish(self, end: int) -> Path | None:
        """Publish the shard, whose seeds end before ``end``; None when it holds nothing."""
        self._pack.close()
        if not self._lines:
            self._pack_path.unlink()
            return None
        stem = f"{self._stem}-{end:010d}"
        part = self._folder / f".{stem}.jsonl.part"
        part.write_text("".join(f"{line}\n" for line in self._lines), encoding="utf-8")
        os.replace(self._pack_path, self._folder / f"{stem}.pack")
        return part.rename(self._folder / f"{stem}.jsonl")

    def drop(self) -> None:
        self._pack.close()
        self._pack_path.unlink(missing_ok=True)


class Shards:
    """Random access to the screens of a folder: ``len``, ``record(i)``, ``png(i)``.

    Screens keep their numbers when ``refresh`` finds more. Records are kept as lines in memory
    (a few kB a screen), packs stay open.
    """

    def __init__(self, folder: Path) -> None:
        """Raises FileNotFoundError when there is no such folder."""
        if not folder.is_dir():
            raise FileNotFoundError(f"there are no shards: {folder} is no folder")
        self._folder = folder
        self._names: set[str] = set()
        self._packs: list[int] = []
        self._lines: list[tuple[int, bytes]] = []
        self.refresh()

    def refresh(self) -> int:
        """Take in the shards that came since; returns how many screens are new."""
        before = len(self._lines)
        for path in sorted(self._folder.glob("*.jsonl")):
            if path.name in self._names or not _NAME.fullmatch(path.name):
                continue
            pack = os.open(path.with_suffix(".pack"), os.O_RDONLY)
            self._names.add(path.name)
            self._packs.append(pack)
            number = len(self._packs) - 1
            self._lines += [(number, line) for line in path.read_bytes().splitlines() if line]
        return len(self._lines) - before

    def __len__(self) -> int:
        return len(self._lines)

    def record(self, index: int) -> dict[str, Any]:
        return json.loads(self._lines[index][1])

    def png(self, index: int) -> bytes:
        """The screen's PNG. Raises OSError when its pack is shorter than it should be."""
        number, line = self._lines[index]
        offset, length = json.loads(line)["png"]
        data = os.pread(self._packs[number], length, offset)
        if len(data) != length:
            raise OSError(f"a pack of {self._folder} is cut off at screen {index}")
        return data

    def close(self) -> None:
        for pack in self._packs:
            os.close(pack)
        self._packs.clear()

    def __enter__(self) -> Shards:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def read_shards(folder: Path) -> Iterator[tuple[dict[str, Any], bytes]]:
    """All finished screens of a folder, shard by shard in the order of their names."""
    with Shards(folder) as shards:
        for index in range(len(shards)):
            yield shards.record(index), shards.png(index)


def claim_shard(folder: Path, mode: str, low: int, block: int) -> tuple[ShardWriter, int]:
    """A new shard and its first seed: of the first block of seeds, from ``low`` on, of which
    nobody has used any.

    Collectors in other processes may claim shards of the same folder at the same time. What a
    killed one left stays claimed. Raises OSError when the folder is not writable.
    """
    first = low
    while True:
        if _is_free(folder, mode, first, block):
            with suppress(FileExistsError):
                shard = ShardWriter(folder, mode, first)
                if _is_free(folder, mode, first, block):
                    return shard, first
                shard.drop()  # it was finished a moment ago
        first += block


def _is_free(folder: Path, mode: str, first: int, block: int) -> bool:
    for path in folder.glob(f"{mode}-*.pack"):
        match = _NAME.fullmatch(path.name)
        if match and first < int(match["end"]) and int(match["first"]) < first + block:
            return False
    return True
