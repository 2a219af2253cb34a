"""Writing a bundle. Each call returns when its data is on the disk; a kill between or in the
middle of calls leaves a readable recording."""

from __future__ import annotations

import hashlib
import secrets
import shutil
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from agentserve.core.errors import RecordingError
from agentserve.replay.bundle.files import append_whole, sync_folder, write_whole
from agentserve.replay.bundle.format import (
    ARIA,
    HEATMAPS,
    MAX_LINE_BYTES,
    MAX_SCREENSHOT_BYTES,
    META,
    NETWORK,
    SCREENSHOTS,
    STEPS,
    EndLine,
    Meta,
    StepLine,
    aria_entry,
    heatmap_entry,
    screenshot_entry,
)
from agentserve.replay.bundle.png import png_size


class RecordingWriter:
    """Writes ``root/<meta.id>``. Blocking; may be called from several threads.

    Every method raises RecordingError when the disk refuses or the data is over a limit.
    """

    def __init__(self, root: Path, meta: Meta) -> None:
        """Creates the recording, whole: it appears with meta.json and no steps, or not at all."""
        self.folder = root / meta.id
        self._lock = threading.Lock()
        self._screenshots: set[str] = set()
        with self._translated():
            root.mkdir(parents=True, exist_ok=True)
            building = root / f".{meta.id}.{secrets.token_hex(4)}"
            try:
                (building / SCREENSHOTS).mkdir(parents=True)
                (building / STEPS).touch()
                write_whole(building / META, (meta.model_dump_json(indent=2) + "\n").encode())
                building.rename(self.folder)
            except OSError:
                shutil.rmtree(building, ignore_errors=True)
                raise
            sync_folder(root)

    def add_screenshot(self, png: bytes) -> str:
        """Store a PNG as it is and return its SHA-256."""
        if len(png) > MAX_SCREENSHOT_BYTES:
            raise RecordingError(
                f"a screenshot of {len(png)} bytes; {MAX_SCREENSHOT_BYTES} is most"
            )
        png_size(png)
        sha = hashlib.sha256(png).hexdigest()
        with self._lock, self._translated():
            if sha not in self._screenshots:
                write_whole(self.folder / screenshot_entry(sha), png)
                self._screenshots.add(sha)
        return sha

    def add_aria(self, snapshot: str) -> str:
        """Store an aria snapshot, which is YAML, and return its SHA-256."""
        data = snapshot.encode()
        sha = hashlib.sha256(data).hexdigest()
        with self._lock, self._translated():
            (self.folder / ARIA).mkdir(exist_ok=True)
            write_whole(self.folder / aria_entry(sha), data)
        return sha

    def set_network(self, har: bytes) -> None:
        """Store what the pages fetched, in the place of what was stored before."""
        with self._lock, self._translated():
            write_whole(self.folder / NETWORK, har)

    def add_heatmap(self, index: int, png: bytes) -> None:
        """Store a step's picture for people; it belongs to nothing that is replayed."""
        with self._translated():
            (self.folder / HEATMAPS).mkdir(exist_ok=True)
            write_whole(self.folder / heatmap_entry(index), png)

    def append(self, line: StepLine | EndLine) -> None:
        """Append a line. A step's screenshot must have been added before."""
        if isinstance(line, StepLine) and line.screenshot not in {None, *self._screenshots}:
            raise RecordingError(f"step {line.index} names a screenshot that was not added")
        data = line.model_dump_json().encode() + b"\n"
        if len(data) > MAX_LINE_BYTES:
            raise RecordingError(
                f"a {line.type} line of {len(data)} bytes; {MAX_LINE_BYTES} is most"
            )
        with self._lock, self._translated():
            append_whole(self.folder / STEPS, data)

    @contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise RecordingError(
                f"cannot write the recording {self.folder}: {error.strerror or error}"
            ) from error
