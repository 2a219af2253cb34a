"""A computer that follows a script: runs of the real loop without a browser."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from agentserve.core.actions import Action
from agentserve.core.elements import ElementTarget
from agentserve.core.sessions import Outcome


class UnexpectedCall(AssertionError):
    """The run did something that its script does not have."""


class ScriptedComputer:
    """Implements core.runs.Computer: shows ``screens`` one after the other, records actions.

    ``outcomes`` are given to the actions in turn, ``ok`` when there are none left; ``elements`` are
    at their points on every screen. Looking once more than there are screens, or acting twice on
    one screen, raises UnexpectedCall.
    """

    def __init__(
        self,
        screens: Sequence[bytes],
        *,
        outcomes: Sequence[Outcome] = (),
        elements: Mapping[tuple[float, float], ElementTarget] | None = None,
        url: str = "http://scripted.invalid/",
    ) -> None:
        self._screens = list(screens)
        self._outcomes = list(outcomes)
        self._elements = dict(elements or {})
        self._looked = False
        self.url = url
        self.performed: list[Action] = []

    async def screenshot(self) -> bytes:
        if not self._screens:
            raise UnexpectedCall(
                f"there is no screen left to show after {len(self.performed)} actions"
            )
        self._looked = True
        return self._screens.pop(0)

    async def perform(self, action: Action) -> Outcome:
        if not self._looked:
            raise UnexpectedCall(f"{action!r} was performed without looking at a screen first")
        self._looked = False
        self.performed.append(action)
        return self._outcomes.pop(0) if self._outcomes else Outcome(status="ok")

    async def element_at(self, x: float, y: float) -> ElementTarget | None:
        return self._elements.get((x, y))

    def assert_complete(self) -> None:
        """Raises AssertionError when screens or outcomes of the script were not used."""
        left = f"{len(self._screens)} screens and {len(self._outcomes)} outcomes were not used"
        assert not self._screens and not self._outcomes, left
