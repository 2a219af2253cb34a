"""Writing a bundle. Each call returns when its data is on the disk, unless the caller syncs at the
end; a kill between or in the middle of calls leaves a readable recording."""

from __future__ import annotations

import hashlib
import secrets
import shutil
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

from pydantic_core import from_json

from agentserve.core.actions.recorded import Resize
from agentserve.core.errors import BadScreenshot, RecordingError
from agentserve.replay.bundle.files import append_whole, sync_folder, sync_tree, write_whole
from agentserve.replay.bundle.format import (
    EXPECT,
    MAX_ARIA_BYTES,
    MAX_EXPECT_BYTES,
    MAX_LINE_BYTES,
    MAX_NETWORK_BYTES,
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
from agentserve.replay.bundle.network import parse_har
from agentserve.replay.bundle.png import png_size
from agentserve.replay.redaction.network import hidden_in_har
from agentserve.replay.redaction.redaction import Redaction
from agentserve.replay.redaction.snapshots import quoted_placeholders
from agentserve.vision.masks import masked


class RecordingWriter:
    """Writes ``root/<meta.id>``. Blocking; may be called from several threads.

    What passes through is redacted, whoever writes. Every method raises RecordingError when the
    disk refuses or the data is damaged or over a limit.
    """

    def __init__(
        self, root: Path, meta: Meta, redaction: Redaction | None = None, *, synced: bool = True
    ) -> None:
        """Creates the recording, whole: it appears with meta.json and no steps, or not at all.

        ``synced``: each call returns when its data is on the disk; False: only ``sync`` does.
        """
        self.folder = root / meta.id
        self.redaction = redaction or Redaction()
        self._synced = synced
        self._lock = threading.Lock()
        self._stored: set[str] = set()
        """Entries."""
        self._steps = 0
        self._ended = False
        self._viewport = meta.viewport
        meta = self.redaction.of(meta)
        with self._translated():
            root.mkdir(parents=True, exist_ok=True)
            building = root / f".{meta.id}.{secrets.token_hex(4)}"
            try:
                (building / SCREENSHOTS).mkdir(parents=True)
                (building / STEPS).touch()
                write_whole(building / META, (meta.model_dump_json(indent=2) + "\n").encode())
                building.rename(self.folder)
            except BaseException:  # an interrupt leaves nothing behind either
                shutil.rmtree(building, ignore_errors=True)
                raise
            sync_folder(root)

    def amend(self, meta: Meta) -> None:
        """Write another meta.json in the place of the first: something has become known since."""
        data = (self.redaction.of(meta).model_dump_json(indent=2) + "\n").encode()
        with self._lock, self._translated():
            write_whole(self.folder / META, data)

    def sync(self) -> None:
        """Returns when all that was written is on the disk."""
        with self._lock, self._translated():
            sync_tree(self.folder)

    def add_screenshot(self, png: bytes) -> str:
        """Store a PNG, as it is but for its masks, and return the SHA-256 of what was stored."""
        png = self.masked(png)
        sha = hashlib.sha256(png).hexdigest()
        self._add(screenshot_entry(sha), png)
        return sha

    def masked(self, png: bytes) -> bytes:
        """The picture as it is stored."""
        _check_size("a screenshot", png, MAX_SCREENSHOT_BYTES)
        png_size(png)
        try:
            return masked(png, self.redaction.masks, self._viewport)
        except BadScreenshot as error:
            raise RecordingError(error.message, hint=error.hint) from error

    def add_aria(self, snapshot: str) -> str:
        """Store an aria snapshot, which is YAML, and return its SHA-256."""
        data = quoted_placeholders(self.redaction.secrets.hidden(snapshot)).encode()
        _check_size("an aria snapshot", data, MAX_ARIA_BYTES)
        sha = hashlib.sha256(data).hexdigest()
        self._add(aria_entry(sha), data)
        return sha

    def set_network(self, har: bytes) -> None:
        """Store what the pages fetched, in the place of what was stored before."""
        _check_size("a network.har", har, MAX_NETWORK_BYTES)
        parse_har(har)
        data = hidden_in_har(har, self.redaction.secrets)
        _check_size("a network.har", data, MAX_NETWORK_BYTES)
        with self._lock, self._translated():
            write_whole(self.folder / NETWORK, data, self._synced)

    def set_expectations(self, expectations: bytes) -> None:
        """Store what a replay must find, as JSON, in the place of what was stored before."""
        _check_object(expectations)
        data = self.redaction.secrets.hidden(expectations.decode()).encode()
        with self._lock:
            write_expectations(self.folder, data)

    def add_heatmap(self, index: int, png: bytes) -> None:
        """Store a step's picture for people; it belongs to nothing that is replayed."""
        self._add(heatmap_entry(index), png)

    def append(self, line: StepLine | EndLine) -> None:
        """Append a line: a step whose index is the next one, its screenshot and aria snapshot added
        before, or the end."""
        line = self.redaction.secrets.hidden_in(line)
        if isinstance(line, StepLine):
            if line.screenshot and screenshot_entry(line.screenshot) not in self._stored:
                raise RecordingError(f"step {line.index} names a screenshot that was not added")
            if line.aria and aria_entry(line.aria) not in self._stored:
                raise RecordingError(f"step {line.index} names an aria snapshot that was not added")
        data = line.model_dump_json().encode() + b"\n"
        _check_size(f"a {line.type} line", data, MAX_LINE_BYTES)
        with self._lock, self._translated():
            self._check_order(line)
            append_whole(self.folder / STEPS, data, self._synced)
            self._ended = isinstance(line, EndLine)
            self._steps += not self._ended
        if isinstance(line, StepLine) and isinstance(line.performed, Resize):
            self._viewport = line.performed.size

    def _check_order(self, line: StepLine | EndLine) -> None:
        """A caller that was interrupted may come late, or twice: no reason for a damaged file."""
        if self._ended:
            raise RecordingError(f"the recording {self.folder.name} has ended: no {line.type} more")
        if isinstance(line, StepLine) and line.index != self._steps:
            raise RecordingError(f"step {line.index} came where step {self._steps} belongs")

    def _add(self, entry: str, data: bytes) -> None:
        with self._lock, self._translated():
            if entry not in self._stored:
                path = self.folder / entry
                path.parent.mkdir(exist_ok=True)
                write_whole(path, data, self._synced)
                self._stored.add(entry)

    def _translated(self) -> AbstractContextManager[None]:
        return _translated(self.folder)


def write_expectations(folder: Path, expectations: bytes) -> None:
    """Replace the expectations of the recording in ``folder``, whole. Raises RecordingError when
    there is no recording in a folder, when they are no JSON object, or when the disk refuses."""
    _check_size(f"an {EXPECT}", expectations, MAX_EXPECT_BYTES)
    if not (folder / META).is_file():
        raise RecordingError(
            f"{folder} is no folder with a recording",
            hint="expectations of a zip file are changed in what `recording unpack` makes of it",
        )
    _check_object(expectations)
    with _translated(folder):
        write_whole(folder / EXPECT, expectations)


def _check_object(data: bytes) -> None:
    """What expectations say is compare's to know; they are a JSON object."""
    try:
        values = from_json(data, allow_inf_nan=False)
    except ValueError as error:
        raise RecordingError(f"{EXPECT}: not JSON: {error}") from error
    if not isinstance(values, dict):
        raise RecordingError(f"{EXPECT}: not a JSON object")


def _check_size(what: str, data: bytes, limit: int) -> None:
    if len(data) > limit:
        raise RecordingError(f"{what} of {len(data)} bytes; {limit} is most")


@contextmanager
def _translated(folder: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise RecordingError(
            f"cannot write the recording {folder}: {error.strerror or error}"
        ) from error
