"""The screens of the last turns, decoded and cut: a turn is planned against the one before."""

from __future__ import annotations

from collections import OrderedDict

from agentserve.core.config import MIB
from agentserve.vision.cells import CutScreen

MAX_BYTES = 128 * MIB
"""Of pixels: some fifty screens of an ordinary size."""


class RecentScreens:
    """By blob and cell. Those that were used last stay; what is gone is read from its blob."""

    def __init__(self, max_bytes: int = MAX_BYTES) -> None:
        self._max_bytes = max_bytes
        self._bytes = 0
        self._screens: OrderedDict[tuple[str, int], CutScreen] = OrderedDict()

    def get(self, blob: str, cell: int) -> CutScreen | None:
        screen = self._screens.get((blob, cell))
        if screen is not None:
            self._screens.move_to_end((blob, cell))
        return screen

    def keep(self, blob: str, screen: CutScreen) -> None:
        """``blob`` is the picture that the screen was cut from."""
        key = (blob, screen.cell)
        if self.get(*key) is None:
            self._screens[key] = screen
            self._bytes += screen.pixels.nbytes
        while self._bytes > self._max_bytes and len(self._screens) > 1:
            _, oldest = self._screens.popitem(last=False)
            self._bytes -= oldest.pixels.nbytes
