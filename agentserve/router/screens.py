"""The sessions' last screens, decoded and cut: a turn is planned against the one before."""

from __future__ import annotations

from collections import Counter, OrderedDict

from agentserve.core.config import MIB
from agentserve.vision.cells import CutScreen

MAX_BYTES = 128 * MIB
"""Of pixels: some fifty screens of an ordinary size."""


class RecentScreens:
    """By blob and cell. Those that were used last stay; what is gone is read from its blob.

    A screen is let go of when its session has another one: its memory is the next one's then, and
    memory that is new to a process costs more than what is done to it.
    """

    def __init__(self, max_bytes: int = MAX_BYTES) -> None:
        self._max_bytes = max_bytes
        self._bytes = 0
        self._screens: OrderedDict[tuple[str, int], CutScreen] = OrderedDict()
        self._kept: Counter[tuple[str, int]] = Counter()
        """How many sessions have that one."""

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
        self._kept[key] += 1
        while self._bytes > self._max_bytes and len(self._screens) > 1:
            self._remove(next(iter(self._screens)))

    def let_go(self, blob: str, cell: int) -> None:
        """Of one that was kept, by a session that has another one now."""
        key = (blob, cell)
        self._kept[key] -= 1
        if self._kept[key] <= 0:
            self._remove(key)

    def _remove(self, key: tuple[str, int]) -> None:
        self._kept.pop(key, None)
        if (gone := self._screens.pop(key, None)) is not None:
            self._bytes -= gone.pixels.nbytes
