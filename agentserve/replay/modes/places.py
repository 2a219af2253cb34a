"""Addresses of a recording on the site that it is replayed on. Pure."""

from __future__ import annotations

from typing import TypeVar
from urllib.parse import urlsplit

from agentserve.core.actions import Navigate
from agentserve.core.actions.recorded import OpenTab

A = TypeVar("A")


class Places:
    """A recording begins at one address, its replay at another: what had the origin of the one has
    that of the other now. A local server's port is another each time, a staging site another
    host."""

    def __init__(self, recorded_url: str, live_url: str, *, anchors: bool = True) -> None:
        """``anchors``: whether the source tells where an address got its ``#part``. Other tools
        tell of the documents that are loaded only."""
        self._anchors = anchors
        self._recorded = _origin(recorded_url)
        self._live = _origin(live_url)

    def now(self, url: str) -> str:
        """Where a recorded address is now."""
        if self._recorded and self._live and _origin(url) == self._recorded:
            return self._live + url[len(self._recorded) :]
        return url

    def action(self, action: A) -> A:
        """The action, with its address where that is now."""
        if isinstance(action, Navigate | OpenTab):
            return action.model_copy(update={"url": self.now(action.url)})  # type: ignore[return-value]
        return action

    def same(self, recorded: str, live: str) -> bool:
        """Whether a live page's address is the recorded one's; a missing one is any."""
        if not self._anchors and "#" not in recorded:
            live = live.partition("#")[0]
        return not recorded or self.now(recorded) == live


def _origin(url: str) -> str:
    """``scheme://host[:port]`` as it is written; empty for what has none."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return ""
    origin = f"{parts.scheme}://{parts.netloc}"
    return origin if parts.netloc and url.startswith(origin) else ""
