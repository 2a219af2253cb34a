"""What pages fetch, as a HAR file with the answers inside."""

from __future__ import annotations

import asyncio
import json
import shutil
import tempfile
from pathlib import Path
from typing import Any

from playwright.async_api import BrowserContext
from playwright.async_api import Error as PlaywrightError

from agentserve.core.config import MIB
from agentserve.core.errors import BrowserFailed, RecordingError
from agentserve.core.runs import NetworkNote

MAX_BYTES = 256 * MIB
_PRIVATE_HEADERS = {"cookie", "set-cookie", "authorization", "proxy-authorization"}
"""Who they are given to can act in another's name. A replay needs none of them: what they decided
is in the answers."""


class NetworkRecording:
    """Records what a context fetches, by Playwright's own recorder."""

    def __init__(self) -> None:
        self._context: BrowserContext | None = None
        self._folder = ""

    async def attach(self, context: BrowserContext, start_url: str) -> None:
        self._folder = await asyncio.to_thread(tempfile.mkdtemp, prefix="agentserve-")
        self._context = context
        path = Path(self._folder) / "network.har"
        await context.tracing.start_har(path, content="embed", mode="minimal")

    async def take_notes(self, wait_s: float = 0.0) -> list[NetworkNote]:
        return []

    async def finish(self) -> bytes:
        """The HAR file, without cookies and credentials. Once, while the context is open.

        Raises BrowserFailed when the browser does not give it, RecordingError when it is too large.
        """
        if self._context is None:
            raise RecordingError("no network was recorded")
        try:
            await self._context.tracing.stop_har()
            return await asyncio.to_thread(_read, Path(self._folder) / "network.har")
        except PlaywrightError as error:
            raise BrowserFailed(f"the network was not recorded: {error.message[:300]}") from error
        finally:
            await asyncio.to_thread(shutil.rmtree, self._folder, True)


def _read(path: Path) -> bytes:
    size = path.stat().st_size
    if size > MAX_BYTES:
        raise RecordingError(
            f"the pages fetched {size} bytes; a recording keeps at most {MAX_BYTES}",
            hint="record a shorter session, or without --har",
        )
    har = json.loads(path.read_bytes())
    for entry in har["log"]["entries"]:
        for side in ("request", "response"):
            _make_public(entry[side])
    return json.dumps(har, ensure_ascii=False, indent=1).encode()


def _make_public(message: dict[str, Any]) -> None:
    message["headers"] = [
        header for header in message["headers"] if header["name"].lower() not in _PRIVATE_HEADERS
    ]
    message["cookies"] = []
