"""Where a recording begins, and what its acts go to: alike for every format."""

from __future__ import annotations

from dataclasses import dataclass

from agentserve.core.actions import Navigate
from agentserve.core.actions.recorded import CloseTab, OpenTab, Resize, SwitchTab
from agentserve.core.elements import ElementTarget
from agentserve.replay.account import Account
from agentserve.replay.bundle.format import StepLine
from agentserve.replay.bundle.reader import Recording

_FOCUSING = {"click", "double_click", "click_element", "fill"}
_TYPING = {"type", "key", "key_down", "key_up"}
_LEAVING = {"\n", "\t"}
"""Typed, they may take the focus elsewhere."""
_HARMLESS = {"hover", "hover_element", "scroll", "scroll_to", "wait", "wait_for", "resize"}


def start_address(recording: Recording) -> str | None:
    """Where the page has to be before the first step; None where that goes somewhere itself, or the
    source does not say."""
    acts = (step.performed for step in recording.steps)
    first = next((act for act in acts if not isinstance(act, Resize)), None)
    return None if isinstance(first, Navigate) else recording.meta.url or None


def tell_failure(step: StepLine, account: Account) -> None:
    """That what is done again did not work when it was recorded."""
    if step.performed is not None and step.outcome.status != "ok":
        account.lose("it failed when it was recorded, and is done all the same", step.index)


@dataclass
class Focus:
    """Which element has the focus, as far as what was done tells."""

    _on: ElementTarget | None = None

    def is_on(self, target: ElementTarget) -> bool:
        if self._on is None:
            return False
        if target.selectors:
            return bool(set(target.selectors) & set(self._on.selectors))
        return target.box is not None and target.box == self._on.box

    def after(self, step: StepLine) -> None:
        """To be called with every step, in turn."""
        act = step.performed
        if act is None or act.kind in _HARMLESS:
            return
        if act.kind in _TYPING:
            said = getattr(act, "text", "")
            moves = bool(_LEAVING & set(said)) or act.kind == "key" and _moves(act.keys)
            self._on = None if moves else step.target or self._on
        else:
            self._on = step.target if act.kind in _FOCUSING else None


def _moves(keys: str) -> bool:
    return keys.rpartition("+")[2] in {"Tab", "Enter", "Escape"}


class Tabs:
    """Which tab is in front, as far as what was done tells."""

    def __init__(self) -> None:
        self._opened = 1
        self._stack = [0]

    @property
    def front(self) -> int | None:
        """Its number from 0, in the order in which they were opened; None: all were closed."""
        return self._stack[-1] if self._stack else None

    def after(self, step: StepLine) -> None:
        """To be called with every step, in turn."""
        match step.performed:
            case OpenTab():
                self._bring(self._opened)
            case SwitchTab(index=index):
                self._bring(index)
            case CloseTab() if self._stack:
                self._stack.pop()

    def _bring(self, index: int) -> None:
        self._opened = max(self._opened, index + 1)
        self._stack = [*(one for one in self._stack if one != index), index]
