"""The events of a Playwright trace, as calls with what is known of each.

A trace is a zip: ``<name>.trace`` has one JSON object a line (``context-options``, ``before``,
``input``, ``after``, ``frame-snapshot``, ``screencast-frame``, ``screenshot``, ``console``,
``event``), ``screencast/`` and ``screenshots/`` have the pictures that those name. Playwright calls
the format internal; this is version 10, which Playwright 1.65 writes.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from pydantic_core import from_json

from agentserve.core.config import MIB
from agentserve.core.errors import RecordingError
from agentserve.replay.account import shortened
from agentserve.replay.bundle.json_size import weight_of
from agentserve.replay.importers.archive import Archive
from agentserve.replay.importers.fields import Fields
from agentserve.replay.importers.playwright_targets import MAX_TABS
from agentserve.replay.importers.sources import (
    MAX_JSON_WEIGHT,
    check_weight,
    read_json_object,
)
from agentserve.replay.importers.trace_fields import logs_password, shows_password, typed_by

VERSION = 10
MAX_LINE_BYTES = 16 * MIB
MAX_CALLS = 20_000
MAX_EVENTS = 1_000_000
MAX_INPUTS = 4
MAX_CALLS_WEIGHT = 8_000_000
"""Of all calls together, as ``json_size`` weighs: they are held until the steps are made."""
MAX_HELD_BYTES = 256 * MIB
"""Of the lines of calls, pages and pictures together: what they say is held as well."""

_PAGE = b'{"type":"frame-snapshot"'
_HELD = ("before", "after", "input")
_NAMING = (*_HELD, "event", "screencast-frame", "screenshot")
"""Events of which texts are kept: in a zip, a small file may have any number of them."""

Point = tuple[float, float]


@dataclass
class Call:
    """One call of Playwright's API."""

    id: str
    method: str
    """With its class, as ``Frame.click``."""
    params: dict[str, Any]
    start_ms: float
    fields: Fields
    page: str = ""
    url: str = ""
    points: list[Point] = field(default_factory=list)
    """In the viewport, in CSS px: where input went."""
    boxes: list[Fields] = field(default_factory=list)
    """Of the elements it went to."""
    result: dict[str, Any] = field(default_factory=dict)
    typed: str = ""
    """The text that it types."""
    password: bool = False
    """Whether that went into a password's field."""
    error: str | None = "the trace ends before the call did"


@dataclass
class Trace:
    """A trace, in the order of its events."""

    origin: str
    """``library``, or ``testRunner`` when it has the steps of a test beside the calls."""
    options: Fields
    """Of the browser's context."""
    version: str
    """Of the Playwright that wrote it."""
    wall_time_ms: float
    calls: list[Call] = field(default_factory=list)
    pages: list[str] = field(default_factory=list)
    """In the order in which they were opened."""
    screenshots: dict[str, str] = field(default_factory=dict)
    """Members with the screen before a call's input, by the call's id."""
    errors: int = 0
    """That pages reported on their consoles."""
    first_error: str = ""
    dialogs: int = 0
    downloads: int = 0
    times: dict[str, list[float]] = field(default_factory=dict)
    frames: dict[str, list[str]] = field(default_factory=dict)
    """Of each page, the members with the frames of its screencast, in the order of ``times``."""

    def screen(self, call: Call) -> str | None:
        """The member with the picture of the screen that the call found."""
        if call.id in self.screenshots:
            return self.screenshots[call.id]
        at = bisect_right(self.times.get(call.page, []), call.start_ms)
        return self.frames[call.page][at - 1] if at else None


def read_trace(archive: Archive, member: str) -> Trace:
    """Read one ``.trace`` of the archive. Raises RecordingError."""
    reader: _Events | None = None
    left, held = MAX_CALLS_WEIGHT, 0
    for number, line in enumerate(archive.lines(member, MAX_LINE_BYTES), start=1):
        entry = f"{member} line {number}"
        if number > MAX_EVENTS:
            raise RecordingError(f"{member}: more than {MAX_EVENTS} events")
        if not line.strip():
            continue
        values = _page(line) if line.startswith(_PAGE) else _event(line, entry)
        fields = Fields(values, entry)
        if values.get("type") in _NAMING:
            held += len(line)
            if held > MAX_HELD_BYTES:
                raise RecordingError(f"{entry}: its calls have over {MAX_HELD_BYTES} bytes")
        if values.get("type") in _HELD:
            left -= check_weight(line, entry, left)
        if reader is None:
            reader = _Events(_begun(fields))
        else:
            reader.take(fields)
    if reader is None:
        raise RecordingError(f"{member}: an empty trace")
    return reader.trace


def _event(line: bytes, entry: str) -> dict[str, Any]:
    if len(line) > MAX_LINE_BYTES:
        raise RecordingError(f"{entry}: longer than {MAX_LINE_BYTES} bytes")
    return read_json_object(line, entry)


def _page(line: bytes) -> dict[str, Any]:
    """A picture of a page's DOM, which may be larger and deeper than anything that is kept: only
    the address beside it is of use, and where that cannot be read, it is not known."""
    try:
        light = weight_of(line, MAX_JSON_WEIGHT) <= MAX_JSON_WEIGHT
        values = from_json(line, allow_inf_nan=False) if light else None
    except ValueError:
        values = None
    return values if isinstance(values, dict) else {"type": "", "snapshot": {}}


def _begun(fields: Fields) -> Trace:
    if fields.text("type") != "context-options":
        raise RecordingError(f"{fields.entry}: a trace begins with context-options")
    version = fields.integer("version", 0, 1_000_000)
    if version != VERSION:
        age = "newer" if version > VERSION else "older"
        raise RecordingError(
            f"{fields.entry}: a trace of version {version}; {VERSION} is read",
            hint=f"the Playwright that wrote it is {age} than 1.65: record it again with that",
        )
    return Trace(
        origin=fields.text("origin", "library"),
        options=fields.inner("options"),
        version=fields.text("playwrightVersion", ""),
        wall_time_ms=fields.number("wallTime", 0.0),
    )


class _Events:
    """Takes the events of a trace, one after the other."""

    def __init__(self, trace: Trace) -> None:
        self.trace = trace
        self._by_id: dict[str, Call] = {}
        self._running: Call | None = None
        self._takers: dict[str, Callable[[Fields], None]] = {
            "before": self._before,
            "input": self._input,
            "after": self._after,
            "frame-snapshot": self._snapshot,
            "log": self._log,
            "screencast-frame": self._frame,
            "screenshot": self._screenshot,
            "console": self._console,
            "event": self._event,
        }

    def take(self, fields: Fields) -> None:
        taker = self._takers.get(fields.text("type"))
        if taker is not None:  # others are the trace viewer's
            taker(fields)

    def _before(self, fields: Fields) -> None:
        if len(self.trace.calls) >= MAX_CALLS:
            raise RecordingError(f"{fields.entry}: more than {MAX_CALLS} calls")
        params = fields.inner("params").values if "params" in fields.values else {}
        call = Call(
            id=fields.text("callId"),
            method=f"{fields.text('class')}.{fields.text('method')}"[:200],
            params=params,
            typed=typed_by(params),
            start_ms=fields.number("startTime"),
            fields=fields,
            page=fields.text("pageId", ""),
        )
        self.trace.calls.append(call)
        self._by_id[call.id] = self._running = call

    def _input(self, fields: Fields) -> None:
        call = self._by_id.get(fields.text("callId"))
        if call is None or len(call.boxes) >= MAX_INPUTS or len(call.points) >= MAX_INPUTS:
            return
        if "point" in fields.values:
            point = fields.inner("point")
            call.points.append((point.number("x"), point.number("y")))
        if "box" in fields.values:
            call.boxes.append(fields.inner("box"))

    def _after(self, fields: Fields) -> None:
        call = self._by_id.get(fields.text("callId"))
        if call is None:
            return
        call.error = None
        if "error" in fields.values:
            call.error = fields.inner("error").text("message", "it failed")
        if isinstance(fields.values.get("result"), dict):
            call.result = fields.values["result"]

    def _snapshot(self, fields: Fields) -> None:
        snapshot = fields.inner("snapshot")
        call = self._by_id.get(snapshot.text("callId", ""))
        if call is None:
            return
        call.page = call.page or snapshot.text("pageId", "")
        if snapshot.values.get("phase") != "after" and snapshot.true("isMainFrame", False):
            call.url = call.url or snapshot.text("frameUrl", "")
        if call.typed and not call.password:
            call.password = shows_password(snapshot.values.get("html"), call.typed)

    def _log(self, fields: Fields) -> None:
        call = self._by_id.get(fields.text("callId", ""))
        if call is not None and call.typed and logs_password(fields.text("message", "")):
            call.password = True

    def _frame(self, fields: Fields) -> None:
        page = fields.text("pageId")
        times = self.trace.times.setdefault(page, [])
        at = fields.number("timestamp")
        if not times or at >= times[-1]:
            times.append(at)
            self.trace.frames.setdefault(page, []).append(fields.text("file"))

    def _screenshot(self, fields: Fields) -> None:
        if fields.text("phase") != "after":  # the latest before the input is the nearest
            self.trace.screenshots[fields.text("callId")] = fields.text("file")

    def _console(self, fields: Fields) -> None:
        if fields.text("messageType", "") == "error":
            self._error(fields.text("text", ""))

    def _event(self, fields: Fields) -> None:
        method, params = fields.text("method"), fields.inner("params")
        if method == "page":
            if len(self.trace.pages) >= MAX_TABS:
                raise RecordingError(f"{fields.entry}: more than {MAX_TABS} tabs")
            self.trace.pages.append(params.text("pageId"))
            self._belongs("BrowserContext.newPage", params)
        elif method == "pageClosed":
            self._belongs("Page.close", params)
        elif method == "pageError":
            self._error("an error that nothing caught")
        elif method == "dialog":
            self.trace.dialogs += 1
        elif method == "download":
            self.trace.downloads += 1

    def _error(self, text: str) -> None:
        self.trace.errors += 1
        self.trace.first_error = self.trace.first_error or shortened(text, 300)

    def _belongs(self, method: str, params: Fields) -> None:
        """What a call does to a page is told while it runs."""
        if self._running and self._running.method == method and not self._running.page:
            self._running.page = params.text("pageId")
