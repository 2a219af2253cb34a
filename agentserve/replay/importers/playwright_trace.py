"""Traces of Playwright: what ``context.tracing.stop(path="trace.zip")`` writes.

Of each call that acts on a page: the action with its point, its element, and the screen before it,
from the trace's screenshots or else its screencast.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from agentserve.core.actions import Navigate, Type
from agentserve.core.actions.recorded import CloseTab, OpenTab, Resize
from agentserve.core.config import MIB
from agentserve.core.elements import ElementTarget
from agentserve.core.errors import RecordingError
from agentserve.core.screens import Size
from agentserve.core.sessions import Outcome
from agentserve.replay.account import Account
from agentserve.replay.addresses import whole_page
from agentserve.replay.bundle.format import MAX_SCREENSHOT_BYTES, EndLine, StepLine
from agentserve.replay.bundle.png import png_size
from agentserve.replay.importers import trace_mouse
from agentserve.replay.importers.archive import Archive, open_archive
from agentserve.replay.importers.losses import MAX_WORDS, tell_options, tell_unsupported
from agentserve.replay.importers.pictures import png_of
from agentserve.replay.importers.playwright_targets import Tabs
from agentserve.replay.importers.taken import MAX_STEPS, Taken
from agentserve.replay.importers.trace_calls import Act, Reader
from agentserve.replay.importers.trace_events import Call, Trace, read_trace

FORMAT = "playwright-trace"
MAX_TRACES = 20
MAX_PICTURES_BYTES = 512 * MIB
"""Of all screens together, as PNG."""

_BLANK = "about:blank"
_DEFAULT_VIEWPORT = Size(width=1280, height=720)
_SHOWN_METHODS = 12
_STAYING = {"fill", "hover", "hover_element", "resize", "scroll", "scroll_to", "wait", "wait_for"}
"""Actions that bring no other page."""


def take(path: Path) -> Taken:
    """Read a trace. Raises RecordingError."""
    with open_archive(path) as archive:
        return _Assembly(archive, path.name).taken()


def trace_members(archive: Archive) -> list[str]:
    """The members that hold events: those of one context each."""
    return sorted(name for name in archive.names() if name.endswith(".trace") and "/" not in name)


class _Assembly:
    """Makes steps of a trace's calls."""

    def __init__(self, archive: Archive, name: str) -> None:
        self._archive = archive
        self._name = name
        self._account = Account()
        self._trace = self._chosen()
        self._tabs = Tabs(self._trace.pages)
        self._viewport = self._first_viewport()
        base = self._trace.options.values.get("baseURL")
        base = base if isinstance(base, str) else ""
        self._reader = Reader(self._account, self._viewport, base)
        self._mouse = trace_mouse.Mouse(self._account, self._viewport)
        self._url = ""
        self._page = self._trace.pages[0] if self._trace.pages else ""
        self._first_url = ""
        self._steps: list[StepLine] = []
        self._pictures: dict[str, bytes] = {}
        self._pictures_bytes = 0
        self._by_member: dict[str, str] = {}
        self._scales: Counter[float] = Counter()
        """Of the steps' screens; a screencast begins before the page has its size."""
        self._passed: Counter[str] = Counter()
        self._failure = ""
        self._passwords: list[int] = []
        self._left = False
        """Whether the last action may have brought another page than it names."""

    def taken(self) -> Taken:
        viewport, trace = self._viewport, self._trace  # the viewport changes with a Resize
        for call in trace.calls:
            self._take(call)
        for deed in self._mouse.rest():
            self._append(deed.call, Act([deed.action]))
        self._tell()
        return Taken(
            format=FORMAT,
            version=f"10, Playwright {trace.version}"[:200],
            viewport=viewport,
            steps=tuple(self._steps),
            url=self._first_url,
            scale=self._scale(),
            created_at=_time(trace.wall_time_ms),
            end=EndLine(
                end="error" if self._failure else "closed",
                message=self._failure,
                turns=len(self._steps),
            ),
            screenshots=self._pictures,
            passwords=tuple(self._passwords),
            blurred=self._is_screencast(),
            lost=self._account.sentences(),
        )

    def _scale(self) -> float:
        """Of the screens, or else of the browser."""
        told = self._trace.options.number("deviceScaleFactor", 1.0)
        if not 0 < told <= 8:
            raise self._trace.options.wrong("deviceScaleFactor", "a number above 0, at most 8")
        scale = max(self._scales, key=self._scales.__getitem__, default=told)
        if scale != told:
            self._account.lose(
                f"the device scale factor {told:g}: the screens have {scale:g}, and so has a replay"
            )
        return scale

    def _chosen(self) -> Trace:
        """The trace with the most calls; a test's runner writes its own beside them."""
        members = trace_members(self._archive)
        if not 1 <= len(members) <= MAX_TRACES:
            raise RecordingError(
                f"{self._name}: {len(members)} .trace files in it; one to {MAX_TRACES} are read",
                hint="context.tracing.stop(path=…) writes a zip with one",
            )
        found: Counter[bool] = Counter()

        def read(member: str) -> Trace:
            trace = read_trace(self._archive, member)
            found[_is_own(trace)] += 1
            return trace

        best = max(map(read, members), key=_rank)  # the others are not held
        if (contexts := found[_is_own(best)]) > 1:
            self._account.lose(f"only the longest of the {contexts} browser contexts is taken over")
        return best

    def _first_viewport(self) -> Size:
        if isinstance(self._trace.options.values.get("viewport"), dict):
            return self._trace.options.inner("viewport").size()
        self._account.lose(f"the trace names no viewport: {_DEFAULT_VIEWPORT} is assumed")
        return _DEFAULT_VIEWPORT

    def _take(self, call: Call) -> None:
        call.page = call.page or self._page
        self._page = call.page
        self._reader.step = len(self._steps)
        if call.method.startswith(trace_mouse.PREFIX) and call.error is None:
            for deed in self._mouse.take(call):
                self._append(deed.call, Act([deed.action]))
            return
        act = self._reader.act(call)
        if act is None:
            if not call.method.startswith(("Tracing.", "Page.__", "BrowserContext.__")):
                self._passed[call.method] += 1
            return
        for deed in self._mouse.rest():
            self._append(deed.call, Act([deed.action]))
        if act.actions == [OpenTab()] and not self._tabs.opens(call.page):
            return  # the tab that a recording begins with
        self._append(call, act)

    def _append(self, call: Call, act: Act) -> None:
        if call.url:
            url = self._account.cut(call.url, MAX_WORDS, "the page's address", len(self._steps))
            # a tab that shows nothing yet: a replay begins where the recording went first
            self._url = "" if url == _BLANK else url
        elif self._left:  # without a snapshot of it, nothing tells where to
            self._url = ""
        self._left = False
        switch = self._tabs.goes_to(call.page)
        if switch is not None:
            self._add(StepLine(index=len(self._steps), url="", performed=switch))
        if not act.actions:
            return
        origin = self._account.origin(
            {"method": call.method, "params": call.params}, len(self._steps)
        )
        screenshot = self._screenshot(call)
        if call.error is not None:
            self._fail(call, act.target, origin, screenshot)
            return
        self._failure = ""
        for number, action in enumerate(act.actions):
            tell_unsupported(action, self._account, len(self._steps))
            if call.password:
                self._passwords.append(len(self._steps))
            self._add(
                StepLine(
                    index=len(self._steps),
                    url=self._url,
                    screenshot=screenshot if number == 0 else None,
                    performed=action,
                    target=act.target,
                    to_target=act.to_target,
                    origin=origin if number == 0 else None,
                )
            )
            self._follow(action)

    def _fail(
        self, call: Call, target: ElementTarget | None, origin: Any, screenshot: str | None
    ) -> None:
        self._failure = self._account.cut(
            f"{call.method}: {call.error}", MAX_WORDS, "its error", len(self._steps)
        )
        self._account.lose("a call that failed is not done again", len(self._steps))
        self._add(
            StepLine(
                index=len(self._steps),
                url=self._url,
                screenshot=screenshot,
                target=target,
                outcome=Outcome(status="failed", message=self._failure),
                origin=origin,
            )
        )

    def _add(self, step: StepLine) -> None:
        if len(self._steps) >= MAX_STEPS:
            raise RecordingError(f"{self._name}: more than {MAX_STEPS} steps")
        self._steps.append(step)

    def _follow(self, action: Any) -> None:
        if isinstance(action, Navigate):
            self._url = whole_page(action.url)
            self._first_url = self._first_url or action.url
        elif isinstance(action, Resize):
            self._viewport = self._reader.viewport = self._mouse.viewport = action.size
        elif isinstance(action, CloseTab):
            self._tabs.closes()
        self._left = self._left or _leaves(action)

    def _screenshot(self, call: Call) -> str | None:
        """The SHA-256 of the screen that the call found."""
        member = self._trace.screen(call)
        if member is None:
            return None
        if member not in self._by_member:
            if member not in self._archive:
                self._account.lose("the trace names a picture that is not in it", len(self._steps))
                return None
            if self._pictures_bytes > MAX_PICTURES_BYTES:
                self._account.lose("no screen: there are too many of them", len(self._steps))
                return None
            data = self._archive.read(member, MAX_SCREENSHOT_BYTES)
            png = png_of(data, f"{self._name}: {member[:120]}")
            sha256 = hashlib.sha256(png).hexdigest()
            if sha256 not in self._pictures:
                self._pictures[sha256] = png
                self._pictures_bytes += len(png)
            self._by_member[member] = sha256
        sha256 = self._by_member[member]
        scale = png_size(self._pictures[sha256]).width / self._viewport.width
        self._scales[min(max(round(scale, 4), 0.01), 8.0)] += 1
        return sha256

    def _is_screencast(self) -> bool:
        return bool(self._trace.times and not self._trace.screenshots)

    def _tell(self) -> None:
        """What is lost of the trace as a whole."""
        trace, account = self._trace, self._account
        if self._passed:
            shown = self._passed.most_common(_SHOWN_METHODS)
            names = ", ".join(f"{name[:60]} ({count})" for name, count in shown)
            more = len(self._passed) - len(shown)
            account.lose(f"calls without an equal: {names}{f' and {more} more' if more else ''}")
        if trace.errors:
            account.lose(f"{trace.errors} errors of the pages, the first: {trace.first_error}")
        tell_options(trace.options, account)
        if trace.dialogs:
            account.lose(f"{trace.dialogs} dialogs, and how they were answered")
        if trace.downloads:
            account.lose(f"{trace.downloads} downloads")
        if any(name.endswith(".network") for name in self._archive.names()):
            account.lose("what the pages fetched")
        if len(self._scales) > 1:
            scales = ", ".join(f"{scale:g}" for scale in list(self._scales)[:8])
            account.lose(f"that screens have several scales: {scales}")
        if self._is_screencast():
            account.lose("the screens are frames of a screencast: smaller, and JPEG before")


def _is_own(trace: Trace) -> bool:
    """Of a browser's context, not of a test's runner."""
    return trace.origin == "library"


def _rank(trace: Trace) -> tuple[bool, int]:
    return _is_own(trace), len(trace.calls)


def _leaves(action: Any) -> bool:
    """Whether an action may bring a page of which it does not tell the address."""
    if isinstance(action, Type):
        return "\n" in action.text
    return not isinstance(action, Navigate) and action.kind not in _STAYING


def _time(wall_time_ms: float) -> datetime | None:
    if not 0 < wall_time_ms < 4_000_000_000_000:
        return None
    return datetime.fromtimestamp(wall_time_ms // 1000, UTC)
