"""The decoded screens that a router keeps."""

from __future__ import annotations

import numpy as np

from agentserve.router.screens import RecentScreens
from agentserve.vision.cells import CutScreen, cut

CELL = 28


def screen(value: int) -> CutScreen:
    return cut(np.full((56, 56, 3), value, np.uint8), CELL)


def test_those_used_last_stay() -> None:
    screens = [screen(value) for value in range(4)]
    kept = RecentScreens(max_bytes=2 * screens[0].pixels.nbytes)
    kept.keep("a", screens[0])
    kept.keep("b", screens[1])
    assert kept.get("a", CELL) is screens[0]  # used: b is the oldest now
    kept.keep("c", screens[2])
    assert [kept.get(blob, CELL) for blob in "abc"] == [screens[0], None, screens[2]]
    kept.keep("c", screens[3])  # the same picture: nothing to change
    assert kept.get("c", CELL) is screens[2]
    assert kept.get("a", 2 * CELL) is None


def test_what_no_session_has_any_more_goes() -> None:
    kept = RecentScreens()
    kept.keep("a", screen(1))
    kept.keep("a", screen(1))  # of another session, which looks the same
    kept.let_go("a", CELL)
    assert kept.get("a", CELL) is not None
    kept.let_go("a", CELL)
    assert kept.get("a", CELL) is None
    kept.let_go("a", CELL)  # a fork's: it was never kept for it
    kept.keep("a", screen(1))
    assert kept.get("a", CELL) is not None


def test_one_is_kept_however_large() -> None:
    one = screen(1)
    kept = RecentScreens(max_bytes=1)
    kept.keep("a", one)
    assert kept.get("a", CELL) is one
    kept.keep("b", one)
    assert (kept.get("a", CELL), kept.get("b", CELL)) == (None, one)
