"""What pages fetch, as a HAR file with the answers inside."""

from __future__ import annotations

import asyncio
import json
import shutil
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Any

from playwright.async_api import BrowserContext, Page, Request
from playwright.async_api import Error as PlaywrightError

from agentserve.core.config import MIB
from agentserve.core.errors import BrowserFailed, RecordingError
from agentserve.core.runs import NetworkNote

MAX_BYTES = 256 * MIB
QUIET_S = 0.5
"""So long nothing is under way before what there is so far is kept."""
_PRIVATE_HEADERS = {"cookie", "set-cookie", "authorization", "proxy-authorization"}
"""Who they are given to can act in another's name. A replay needs none of them: what they decided
is in the answers."""


class NetworkRecording:
    """Records what a context fetches, by Playwright's own recorder.

    That one gives its file once and from an open browser only. ``growing``: it is asked for the
    file, and begun anew, whenever nothing is under way, so that a browser that a person quits
    takes no more along than what was fetched since.

    The file passes through a folder that only this user can read, and is gone from there at once.
    """

    def __init__(self, *, growing: bool = False) -> None:
        self._growing = growing
        self._context: BrowserContext | None = None
        self._folder = ""
        self._files = 0
        self._kept: dict[str, Any] | None = None
        self._size = 0
        self._under_way: dict[Request, Page | None] = {}
        self._since = 0
        """Requests that were begun since the file was kept."""
        self._changed = asyncio.Event()
        self._failure: PlaywrightError | RecordingError | None = None
        """Why it does not grow any more."""
        self._keeping: asyncio.Task[None] | None = None
        self.missing = 0
        """Requests that went with the browser; known when it is finished."""

    async def attach(self, context: BrowserContext, start_url: str) -> None:
        self._folder = await asyncio.to_thread(tempfile.mkdtemp, prefix="agentserve-")
        self._context = context
        await self._start(context)
        if self._growing:
            context.on("request", self._begun)
            context.on("requestfinished", self._ended)
            context.on("requestfailed", self._ended)
            self._keeping = asyncio.ensure_future(self._keep_growing(context))

    async def take_notes(self, wait_s: float = 0.0) -> list[NetworkNote]:
        return []

    async def finish(self) -> bytes:
        """The HAR file, without cookies and credentials. Once, while the context is open: without
        the last of it where the browser is gone, and something was kept.

        Raises BrowserFailed when the browser does not give it, RecordingError when it is too large.
        """
        if self._context is None:
            raise RecordingError("no network was recorded")
        try:
            if self._keeping is not None:
                self._keeping.cancel()
                await asyncio.wait({self._keeping})
            await self._keep_last(self._context)
            return await asyncio.to_thread(_written, self._kept)
        finally:
            await asyncio.to_thread(shutil.rmtree, self._folder, True)

    async def _keep_last(self, context: BrowserContext) -> None:
        try:
            if self._failure is not None:
                raise self._failure
            await context.tracing.stop_har()
            await self._take(self._path)
        except PlaywrightError as error:
            if self._kept is None:
                raise BrowserFailed(
                    f"the network was not recorded: {error.message[:300]}"
                ) from error
            self.missing = self._since

    @property
    def _path(self) -> Path:
        return Path(self._folder) / f"network-{self._files}.har"

    async def _start(self, context: BrowserContext) -> None:
        self._files += 1
        await context.tracing.start_har(self._path, content="embed", mode="minimal")

    async def _take(self, path: Path) -> None:
        """Raises RecordingError when it is too large with what is there."""
        size, har = await asyncio.to_thread(_read, path, MAX_BYTES - self._size)
        self._size += size
        if self._kept is None:
            self._kept = har
        else:
            self._kept["log"]["entries"] += har["log"]["entries"]

    # growing

    def _begun(self, request: Request) -> None:
        page = None
        with suppress(PlaywrightError):  # of a service worker, or of a page that is not there yet
            page = request.frame.page
        self._under_way[request] = page
        self._since += 1
        self._changed.set()

    def _ended(self, request: Request) -> None:
        self._under_way.pop(request, None)
        self._changed.set()

    async def _keep_growing(self, context: BrowserContext) -> None:
        while True:
            self._changed.clear()
            try:
                async with asyncio.timeout(QUIET_S):
                    await self._changed.wait()
                continue
            except TimeoutError:
                pass
            if self._since and not self._is_busy():
                # to its end, whenever this is cancelled: half of it would be lost
                switching = asyncio.ensure_future(self._switch(context))
                try:
                    await asyncio.shield(switching)
                except asyncio.CancelledError:
                    await asyncio.wait({switching})
                    raise
                except (PlaywrightError, RecordingError) as error:
                    self._failure = error
                    return
            if not self._since:
                await self._changed.wait()

    def _is_busy(self) -> bool:
        """Requests of pages that were closed have no end."""
        return any(page is None or not page.is_closed() for page in self._under_way.values())

    async def _switch(self, context: BrowserContext) -> None:
        """The next file is begun when the end of this one has been asked for: in between Playwright
        does nothing else."""
        path, before = self._path, self._since
        stopping = asyncio.ensure_future(context.tracing.stop_har())
        await asyncio.sleep(0)
        try:
            await self._start(context)
        finally:
            await stopping
        await self._take(path)
        self._since -= before


def _read(path: Path, most: int) -> tuple[int, dict[str, Any]]:
    """The file's size in bytes and what is in it; it is removed."""
    size = path.stat().st_size
    if size > most:
        path.unlink()
        raise RecordingError(
            f"the pages fetched {MAX_BYTES - most + size} bytes; a recording keeps at most "
            f"{MAX_BYTES}",
            hint="record a shorter session, or without --har",
        )
    har: dict[str, Any] = json.loads(path.read_bytes())
    path.unlink()
    for entry in har["log"]["entries"]:
        for side in ("request", "response"):
            _make_public(entry[side])
    return size, har


def _written(har: dict[str, Any] | None) -> bytes:
    return json.dumps(har, ensure_ascii=False, indent=1).encode()


def _make_public(message: dict[str, Any]) -> None:
    message["headers"] = [
        header for header in message["headers"] if header["name"].lower() not in _PRIVATE_HEADERS
    ]
    message["cookies"] = []
