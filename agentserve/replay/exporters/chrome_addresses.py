"""Where the page is after each step of a flow: Chrome says so as an asserted navigation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from agentserve.core.actions import Navigate
from agentserve.replay.addresses import whole_address, whole_page
from agentserve.replay.bundle.format import StepLine

_NOT_AWAITED = ("keyUp", "close")
"""A key that goes down may bring another page: when it comes up it is too late to wait for it."""
_Given = dict[str, Any]


class Addresses:
    """What a reader of the flow knows of the page's address, step by step."""

    def __init__(self, start: str | None) -> None:
        """``start`` is where the flow goes before its first step, if it does."""
        self._known = whole_page(start) if start else ""

    def before(self, step: StepLine, given: Sequence[_Given]) -> None:
        """``given`` is what the flow does before its first step."""
        self._tell(step.url, given)

    def after(self, step: StepLine, given: Sequence[_Given], following: StepLine | None) -> None:
        """To be called with every step, what was given for it, and the next one, in turn."""
        if isinstance(step.performed, Navigate):
            self._known = whole_page(whole_address(step.url, step.performed.url))
        if following is not None:
            self._tell(following.url, given)

    def _tell(self, url: str, given: Sequence[_Given]) -> None:
        """That the page is at ``url`` then; empty: nobody knows."""
        if not url or url == self._known:
            return
        holders = [one for one in given if one["type"] not in _NOT_AWAITED]
        if not holders:
            return
        self._known = url
        holder = holders[-1]
        if holder["type"] == "customStep":  # Chrome would wait in vain for what it goes by
            holder["parameters"]["url"] = url
        else:
            holder["assertedEvents"] = [{"type": "navigation", "url": url}]
