"""The mouse in a Playwright trace: presses and releases become clicks and drags."""

from __future__ import annotations

from typing import Any, NamedTuple

from agentserve.core.actions import Drag, Hover, Scroll
from agentserve.core.actions.recorded import Unsupported
from agentserve.replay.account import Account
from agentserve.replay.importers.fields import Fields
from agentserve.replay.importers.playwright_targets import click
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

    def __init__(self, account: Account) -> None:
        self._account = account
        self._at: Point = (0.0, 0.0)
        self._moved: Call | None = None
        self._held: _Held | None = None

    def take(self, call: Call) -> list[Deed]:
        """Raises RecordingError for parameters that Playwright does not write, ValidationError for
        points outside of any screen."""
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
                    Deed(call, click(params.text("button", "left"), clicks, [], self._at)),
                ]
            case "Wheel":
                deeds = self.rest()
                x, y = (round(value) for value in self._at)
                dx, dy = round(params.number("deltaX", 0)), round(params.number("deltaY", 0))
                return [*deeds, Deed(call, Scroll(x=x, y=y, dx=dx, dy=dy))]
            case _:
                return [Deed(call, Unsupported(what=call.method))]

    def rest(self) -> list[Deed]:
        """What is still open when something else is done."""
        moved, self._moved = self._moved, None
        deeds = self._let_go()
        if moved is not None:
            x, y = (round(value) for value in self._at)
            deeds.append(Deed(moved, Hover(x=x, y=y)))
        return deeds

    def _let_go(self) -> list[Deed]:
        held, self._held = self._held, None
        if held is None:
            return []
        return [Deed(held.call, Unsupported(what="a button of the mouse that is held meanwhile"))]

    def _released(self, held: _Held) -> Any:
        if self._at == held.at:
            return click(held.button, held.clicks, [], held.at)
        if held.button != "left":
            return Unsupported(what=f"a drag with the {held.button[:20]} button")
        (x, y), (to_x, to_y) = held.at, self._at
        return Drag(x=round(x), y=round(y), to_x=round(to_x), to_y=round(to_y))
