"""What a client has sent of its sessions' screens, so that it can send what changes instead."""

from __future__ import annotations

import base64
from collections import OrderedDict
from dataclasses import dataclass

import numpy as np

from agentserve.core.errors import BadScreenshot
from agentserve.core.plans import Sha256
from agentserve.core.screenshots import ScreenRegion, ScreenshotRef
from agentserve.vision.cells import identity
from agentserve.vision.patches import make_regions
from agentserve.vision.screenshots import pixels_of

MAX_SESSIONS = 32
"""Screens that are remembered, of a few megabytes each."""
_REGION_BYTES = 120
"""Of a region in JSON, without its picture."""


@dataclass(frozen=True)
class Outgoing:
    """A screenshot on its way."""

    pixels: np.ndarray | None
    """None: it cannot be read here; the router may know better."""
    patch: ScreenshotRef | None
    """What is sent instead, if that is smaller."""


class SentScreens:
    """The last screen of each session. Not for several threads at once."""

    def __init__(self) -> None:
        self._last: OrderedDict[str, tuple[Sha256, np.ndarray]] = OrderedDict()

    def outgoing(self, session_id: str, screenshot: bytes) -> Outgoing:
        """Takes milliseconds of CPU."""
        try:
            pixels = pixels_of(screenshot, max_bytes=len(screenshot), what="the screenshot")
        except BadScreenshot:
            return Outgoing(None, None)
        base, before = self._last.get(session_id, (None, pixels))
        if base is None:
            return Outgoing(pixels, None)
        regions = make_regions(before, pixels)
        if regions is None or _json_bytes([len(r.png) for r in regions]) >= len(screenshot):
            return Outgoing(pixels, None)
        sent = [
            ScreenRegion(box=region.box, base64=base64.b64encode(region.png).decode())
            for region in regions
        ]
        return Outgoing(pixels, ScreenshotRef(base=base, regions=sent, sha256=identity(pixels)))

    def arrived(self, session_id: str, outgoing: Outgoing, blob: Sha256) -> None:
        """The router has the screenshot, as this blob."""
        self._last.pop(session_id, None)
        if outgoing.pixels is not None:
            self._last[session_id] = (blob, outgoing.pixels)
        while len(self._last) > MAX_SESSIONS:
            self._last.popitem(last=False)

    def forget(self, session_id: str) -> None:
        self._last.pop(session_id, None)


def _json_bytes(pictures: list[int]) -> int:
    return sum(size * 4 // 3 + _REGION_BYTES for size in pictures)
