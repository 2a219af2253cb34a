"""Elements, actions and tabs as Playwright's trace and its codegen name them."""

from __future__ import annotations

import math
from typing import Any

from pydantic import ValidationError

from agentserve.core.actions import Click, DoubleClick
from agentserve.core.actions.recorded import ClickElement, SwitchTab, Unsupported
from agentserve.core.elements import ElementTarget, PageBox
from agentserve.core.errors import RecordingError
from agentserve.core.screens import Size
from agentserve.replay.account import Account, shortened
from agentserve.replay.importers.fields import Fields
from agentserve.replay.importers.playwright_selectors import chain_of
from agentserve.replay.importers.sources import words

MAX_TABS = 1000
_MODIFIERS = {"ControlOrMeta": "Control"}


class Tabs:
    """Which tab is in front, and its number."""

    def __init__(self, opened: list[str]) -> None:
        self._opened = opened
        self._front: str | None = None

    def opens(self, page: str) -> bool:
        """A tab comes to the front; False for the first, which a recording begins with."""
        if page not in self._opened:
            self._add(page)
        first, self._front = self._front is None, page
        return not first

    def goes_to(self, page: str) -> SwitchTab | None:
        """What brings a page to the front; None when it is there."""
        if not page or page == self._front:
            return None
        if page not in self._opened:
            self._add(page)
        first, self._front = self._front is None, page
        return None if first else SwitchTab(index=self._opened.index(page))

    def closes(self) -> None:
        """The tab in front is closed: which one comes to the front is not told."""
        self._front = ""

    def _add(self, page: str) -> None:
        if len(self._opened) >= MAX_TABS:
            raise RecordingError(f"more than {MAX_TABS} tabs")
        self._opened.append(page)


def element(
    selector: str | None,
    account: Account,
    step: int,
    *,
    box: Fields | None = None,
    point: tuple[float, float] | None = None,
    offset: tuple[float, float] | None = None,
) -> ElementTarget | None:
    """The element of a selector, a box, and a point in the viewport or its offset in the box.

    None when nothing of it can be used.
    """
    chain = chain_of(selector) if selector is not None else None
    if selector is not None and chain is None:
        account.lose(f"the selector {words(selector)} has no equal", step)
    place = None
    if box is not None:
        place = box.build(
            PageBox, **{name: box.number(name) for name in ("x", "y", "width", "height")}
        )
        if point is not None:
            offset = (round(point[0] - place.x, 2), round(point[1] - place.y, 2))
    if chain is None and place is None:
        return None
    return ElementTarget(selectors=(chain,) if chain else (), box=place, offset=offset)


def pixel(point: tuple[float, float], viewport: Size) -> tuple[int, int] | None:
    """The pixel of the viewport that a point in CSS px lies in; None when it lies outside.

    What is less than 1 px beyond an edge is on it: so far off are the sums of a browser.
    """
    sides = (viewport.width, viewport.height)
    if not all(-1 < value < side + 1 for value, side in zip(point, sides, strict=True)):
        return None
    x, y = (
        min(max(math.floor(value), 0), side - 1) for value, side in zip(point, sides, strict=True)
    )
    return x, y


def outside(what: str, point: tuple[float, float], viewport: Size) -> Unsupported:
    """Something that was done at a point which ``pixel`` does not find."""
    x, y = point
    return Unsupported(what=f"{what} at ({x:g}, {y:g}), outside of the viewport of {viewport}")


def click(button: str, clicks: int, modifiers: list[str], point: tuple[int, int] | None) -> Any:
    """A click at a pixel of the viewport, or, without one, on the step's target."""
    try:
        if point is not None and not modifiers:
            x, y = point
            if clicks == 1:
                return Click(x=x, y=y, button=button)
            if clicks == 2 and button == "left":
                return DoubleClick(x=x, y=y)
        held = tuple(dict.fromkeys(_MODIFIERS.get(name, name) for name in modifiers))
        return ClickElement(button=button, clicks=clicks, modifiers=held)
    except ValidationError:
        what = f"{clicks} clicks of the button {words(button)}"
        what += f" with {words(modifiers)} held" if modifiers else ""
        return Unsupported(what=shortened(what, 2000))
