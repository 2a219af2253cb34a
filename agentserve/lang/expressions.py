"""The expressions that a program's turn adds to SGLang's language."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from sglang.lang.ir import SglExpr, SglGen

from agentserve.core.actions import KINDS, action_regex
from agentserve.core.plans import VisualItem
from agentserve.core.screens import ScreenSpace

ACTION_TOKENS = 128
"""Default limit of an action: a text of 160 characters fits with most tokenizers."""


@dataclass(frozen=True)
class ScreenView:
    """The screen of a turn as its program sees it. The pixels stay with the host."""

    space: ScreenSpace
    items: tuple[VisualItem, ...]
    """What ``screen(view)`` puts into the prompt, in order."""
    turn: int
    """Counts from 0 within the session."""


class SglScreen(SglExpr):
    """The screen's visual items at this place of the prompt."""

    def __init__(self, view: ScreenView) -> None:
        super().__init__()
        self.view = view

    def __repr__(self) -> str:
        return f"Screen(turn={self.view.turn})"


class SglLookAgain(SglExpr):
    """A wish for the next turn's screen."""

    def __repr__(self) -> str:
        return "LookAgain()"


class SglAction(SglGen):
    """A generation whose text is the turn's action."""


def screen(view: ScreenView) -> SglScreen:
    """Put the turn's screen here."""
    return SglScreen(view)


def look_again() -> SglLookAgain:
    """Have the next turn show in full what pruning and eviction have left less of."""
    return SglLookAgain()


def action(
    view: ScreenView,
    name: str = "action",
    *,
    kinds: Iterable[str] = KINDS,
    max_tokens: int = ACTION_TOKENS,
    temperature: float = 0.0,
) -> SglAction:
    """Generate one action in the compact dialect into the variable ``name``.

    The grammar allows only ``kinds``, and only points inside ``view``'s screen. When a turn has
    several actions, the last one is its answer. Raises BadAction for an unknown kind.
    """
    return SglAction(
        name,
        max_new_tokens=max_tokens,
        temperature=temperature,
        regex=action_regex(view.space.model, kinds),
    )
