"""The mouse in a Playwright trace: presses and releases become clicks and drags."""

from __future__ import annotations

from typing import Any, NamedTuple

from pydantic import ValidationError

from agentserve.core.actions import Drag, Hover, Scroll
from agentserve.core.actions.recorded import ClickElement, Unsupported
from agentserve.core.screens import Size
from agentserve.replay.account import Account
from agentserve.replay.importers.fields import Fields
from agentserve.replay.importers.playwright_targets import click, outside, pixel
from agentserve.replay.importers.trace_events import Call, Point

PREFIX = "Page.mouse"


class Deed(NamedTuple):
    """What the mouse did, and the call that it began with."""

    call: Call
    action: Any


class _Held(NamedTuple):
    call: Call
    at: Point
    button: str
    clicks: int


class Mouse:
    """Takes the mouse's calls in their order and gives what they amount to."""

    def __init__(self, account: Account, viewport: Size) -> None:
        self._account = account
        self.viewport = viewport
        """Where the mouse is at the time."""
        self._at: Point = (0.0, 0.0)
        self._moved: Call | None = None
        self._held: _Held | None = None

    def take(self, call: Call) -> list[Deed]:
        """Raises RecordingError for parameters that Playwright does not write."""
        params = Fields(call.params, call.fields.entry)
        match call.method.removeprefix(PREFIX):
            case "Move":
                if self._moved is not None or self._held is not None and self._at != self._held.at:
                    self._account.lose("of several moves of the mouse in a row the last one counts")
                self._at = (params.number("x"), params.number("y"))
                self._moved = call if self._held is None else None
                return []
            case "Down":
                deeds = self._let_go()
                self._moved = None
                button = params.text("button", "left")
                self._held = _Held(call, self._at, button, params.integer("clickCount", 1, 1000, 1))
                return deeds
            case "Up":
                held, self._held = self._held, None
                if held is None:
                    return [Deed(call, Unsupported(what="a button of the mouse that comes up"))]
                return [Deed(held.call, self._released(held))]
            case "Click":
                deeds = self.rest()
                self._at = (params.number("x"), params.number("y"))
                clicks = params.integer("clickCount", 1, 1000, 1)
                return [
                    *deeds,
                    Deed(call, self._click(params.text("button", "left"), clicks, self._at)),
                ]
            case "Wheel":
                deeds = self.rest()
                dx, dy = round(params.number("deltaX", 0)), round(params.number("deltaY", 0))
                return [*deeds, Deed(call, self._wheel(dx, dy))]
            case _:
                return [Deed(call, Unsupported(what=call.method))]

    def rest(self) -> list[Deed]:
        """What is still open when something else is done."""
        moved, self._moved = self._moved, None
        deeds = self._let_go()
        if moved is not None:
            at = pixel(self._at, self.viewport)
            if at is None:  # as when it is moved away: nothing is under it then
                x, y = self._at
                self._account.lose(
                    f"a move of the mouse to ({x:g}, {y:g}), outside of the viewport of "
                    f"{self.viewport}, is left out"
                )
            else:
                deeds.append(Deed(moved, Hover(x=at[0], y=at[1])))
        return deeds

    def _click(self, button: str, clicks: int, point: Point) -> Any:
        at = pixel(point, self.viewport)
        if at is None:
            return outside(f"{clicks} clicks" if clicks > 1 else "a click", point, self.viewport)
        action = click(button, clicks, [], at)
        if isinstance(action, ClickElement):  # which is done to an element: the mouse names none
            return Unsupported(what=f"{clicks} clicks of the {button} button at a point")
        return action

    def _wheel(self, dx: int, dy: int) -> Any:
        at = pixel(self._at, self.viewport)
        if at is None:
            return outside("a turn of the wheel", self._at, self.viewport)
        try:
            return Scroll(x=at[0], y=at[1], dx=dx, dy=dy)
        except ValidationError:
            return Unsupported(what=f"a turn of the wheel by ({dx:g}, {dy:g}) px")

    def _let_go(self) -> list[Deed]:
        held, self._held = self._held, None
        if held is None:
            return []
        return [Deed(held.call, Unsupported(what="a button of the mouse that is held meanwhile"))]

    def _released(self, held: _Held) -> Any:
        if self._at == held.at:
            return self._click(held.button, held.clicks, held.at)
        if held.button != "left":
            return Unsupported(what=f"a drag with the {held.button[:20]} button")
        start, end = pixel(held.at, self.viewport), pixel(self._at, self.viewport)
        if start is None or end is None:
            point = held.at if start is None else self._at
            return outside("a drag with an end", point, self.viewport)
        return Drag(x=start[0], y=start[1], to_x=end[0], to_y=end[1])
