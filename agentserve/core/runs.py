"""What a run of an agent in a browser produces, step by step. The browser layer emits it, the
recorder and the progress display take it; neither knows the other."""

from __future__ import annotations

from typing import Annotated, Literal, Protocol

from pydantic import Field

from agentserve.core.actions import Action
from agentserve.core.actions.recorded import RecordedAction
from agentserve.core.elements import Chain, ElementTarget
from agentserve.core.model import Wire
from agentserve.core.screens import MAX_SIDE, ScreenSpace
from agentserve.core.sessions import Outcome, Session, TurnResult

EndReason = Literal[
    "done",
    "gave_up",
    "task_ended",
    "call_user",
    "max_turns",
    "invalid_actions",
    "error",
    "interrupted",
    "closed",
]
"""``closed``: of a recording that no agent made: it was closed, or the source ends there."""

PointerPx = Annotated[int, Field(ge=0, lt=MAX_SIDE)]
Pointer = tuple[PointerPx, PointerPx] | Literal["outside"]
"""Where the mouse pointer is, in CSS px of the viewport. What lies under it may look otherwise."""


class Step(Wire):
    """One observe-turn-act step."""

    index: int
    """Counts from 0, one up a step."""
    url: str
    """The page's address when the screenshot was taken."""
    instruction: str | None
    outcome_sent: Outcome | None
    """What the turn was told of the action before."""
    result: TurnResult
    performed: Action | None
    """The action that was really performed, in CSS px."""
    target: ElementTarget | None = None
    """The element under its point, before it was performed."""
    to_target: ElementTarget | None = None
    """Of a drag: the element under its end."""
    outcome: Outcome
    """What became of it."""
    step_ms: float


class RunSummary(Wire):
    """How a run ended."""

    session_id: str | None = None
    """None: no agent of ours acted."""
    end: EndReason
    message: str = ""
    success: bool | None = None
    """The task's own check; None when the task has none."""
    reward: float | None = None
    turns: int = 0


class Computer(Protocol):
    """What a runner drives: a browser page, or a scripted stand-in of one."""

    @property
    def url(self) -> str:
        """Address of the page that is in front."""
        ...

    async def screenshot(self) -> bytes:
        """PNG of the settled page, in the session's model px. Raises BrowserFailed."""
        ...

    async def perform(self, action: Action) -> Outcome:
        """Perform an action in CSS px. A page that resists gives ``failed``, never an exception;
        BrowserFailed is raised when there is no page any more (crashed, browser gone)."""
        ...

    async def element_at(self, x: float, y: float) -> ElementTarget | None:
        """The element at a point in CSS px. None when there is none, or none can be told; never an
        exception of the page's making."""
        ...


class Performed(Wire):
    """What was made of a recorded action."""

    action: RecordedAction
    """As it was performed: its points are those that were aimed at, in CSS px."""
    outcome: Outcome
    found_by: Chain | None = None
    """The selectors that found its target; None: it was aimed at the recorded point."""
    found_text: str = ""
    """What the found target shows."""


class NetworkNote(Wire):
    """A request of a page that did not go as it did in a recording."""

    what: Literal["missing", "answer"]
    """``missing``: it was not recorded; ``answer``: it is answered otherwise now."""
    request: str
    """Method and address."""
    recorded: str | None = None
    replayed: str | None = None
    """What became of it, in words."""


class RecordedComputer(Computer, Protocol):
    """A computer that also does what only recordings hold."""

    def fit(self, space: ScreenSpace) -> None:
        """From now on screenshots have ``space.model``'s size. Raises InvalidRequest when the space
        is not one of this computer's viewport."""
        ...

    async def perform_recorded(
        self,
        action: RecordedAction,
        target: ElementTarget | None = None,
        to_target: ElementTarget | None = None,
    ) -> Performed:
        """Perform an action in CSS px at its target's element where that is found, else at the
        recorded point. Fails as ``perform`` does."""
        ...

    async def put_pointer(self, pointer: Pointer) -> None:
        """Put it there on the page in front, and do nothing else. Raises BrowserFailed."""
        ...

    async def aria(self) -> str:
        """Aria snapshot of the page in front, as YAML. Raises BrowserFailed."""
        ...

    async def network_notes(self, wait_s: float = 0.0) -> list[NetworkNote]:
        """What the network did otherwise since the last call. With ``wait_s`` requests that are
        still open are waited for so long, and those without an answer then are noted."""
        ...


class RunObserver(Protocol):
    """Told of a run as it happens. Calls come in this order, step once a turn."""

    async def started(self, session: Session, url: str) -> None: ...

    async def screenshot(self, index: int, image: bytes) -> None:
        """PNG bytes, before the turn is asked."""
        ...

    async def step(self, step: Step) -> None: ...

    async def ended(self, summary: RunSummary) -> None: ...
