"""Mode ``browser``: the recorded actions on the live pages, the screens compared before each."""

from __future__ import annotations

import hashlib
import math
import time
from collections.abc import Callable, Sequence
from typing import Any

from agentserve.core.actions import points
from agentserve.core.actions.recorded import Unsupported
from agentserve.core.elements import Chain, ElementTarget
from agentserve.core.errors import AgentServeError, RecordingError
from agentserve.core.runs import NetworkNote, Performed, RecordedComputer
from agentserve.core.sessions import Outcome
from agentserve.replay.bundle.format import StepLine
from agentserve.replay.bundle.reader import Recording
from agentserve.replay.compare.difference import Difference
from agentserve.replay.compare.expectations import AcceptedAction, ActionRule
from agentserve.replay.compare.turns import action_differences
from agentserve.replay.modes.looking import CompareAria, CompareScreens, Looker
from agentserve.replay.modes.places import Places
from agentserve.replay.modes.reporting import failure_of, report_of
from agentserve.replay.results import OnStep, Replayed, ReplayFailure, Side, StepReport

LATE_S = 5.0
TOLERANCE_PX = 2.0
LONGEST_LABEL = 80
"""Characters of a text that tells an element from others."""

Fill = Callable[[Any], Any]
"""Gives an action with its secrets filled in. Raises InvalidRequest for one that is not given."""
Accepted = Callable[[StepLine], Sequence[AcceptedAction]]
"""What else a step may do."""


async def replay_browser(
    computer: RecordedComputer,
    recording: Recording,
    *,
    compare_screens: CompareScreens,
    compare_aria: CompareAria | None = None,
    fill: Fill | None = None,
    tolerance_px: float = TOLERANCE_PX,
    accepted: Accepted = lambda _: (),
    late_s: float = LATE_S,
    go_by_unsupported: bool = False,
    on_step: OnStep | None = None,
) -> Replayed:
    """Do what was recorded on the page that ``computer`` shows, which is where it began.

    A step without a recorded screenshot is done, and what became of it is compared. Points that
    elements have moved by ``tolerance_px`` CSS px are the same, and those that were ``accepted`` of
    the step; a page may be ``late_s`` later than
    it was. A page that is no more ends the replay, as a step does that has no equal here unless it
    is gone by; both are part of the report. Raises RecordingError for a damaged entry.
    """
    begun = time.perf_counter()
    if recording.meta.space is not None:
        computer.fit(recording.meta.space)
    places = Places(recording.meta.url, computer.url)
    looker = Looker(computer, recording, places, compare_screens, compare_aria, late_s)
    replay = _Replay(computer, recording, places, looker, fill, tolerance_px, accepted)
    failure: ReplayFailure | None = None
    for step in recording.steps:
        if isinstance(step.performed, Unsupported) and not go_by_unsupported:
            failure = _unsupported(step, step.performed)
            break
        try:
            report = await replay.step(step)
        except RecordingError:
            raise
        except AgentServeError as error:
            failure = failure_of(error, step.index)
            break
        if on_step is not None:
            on_step(report)
    return Replayed(
        report_of(
            recording,
            "browser",
            replay.steps,
            error=failure,
            settings={"tolerance": f"{tolerance_px:g} px", "late": f"{late_s:g} s"},
            notes=replay.notes,
            seconds=time.perf_counter() - begun,
        ),
        recording,
        replay.pictures,
        replay.arias,
    )


class _Replay:
    """One replay, step by step."""

    def __init__(
        self,
        computer: RecordedComputer,
        recording: Recording,
        places: Places,
        looker: Looker,
        fill: Fill | None,
        tolerance_px: float,
        accepted: Accepted,
    ) -> None:
        self._computer = computer
        self._messages = recording.meta.source != "import"
        self._places = places
        self._looker = looker
        self._fill = fill
        self._rule = ActionRule(tolerance_px=tolerance_px)
        self._accepted = accepted
        self.steps: list[StepReport] = []
        self.notes: list[str] = []
        self.pictures: dict[str, bytes] = {}
        self.arias: dict[str, bytes] = {}

    async def step(self, step: StepLine) -> StepReport:
        begun = time.perf_counter()
        look = await self._looker.look(step)
        self.pictures[look.sha256] = look.picture
        aria = look.aria and hashlib.sha256(look.aria).hexdigest()
        if aria and look.aria:
            self.arias[aria] = look.aria
        performed = await self._perform(step)
        differences = [*look.differences]
        # as it is recorded, but for its points: secrets are not told
        action = performed and _at_points_of(step.performed, performed.action)
        if performed is not None:
            aims = aim_differences(step, performed, self._rule.tolerance_px)
            differences += [] if aims and self._is_accepted(step, action) else aims
            differences += outcome_differences(
                step.outcome, performed.outcome, messages=self._messages
            )
        notes = await self._computer.network_notes()
        differences += [_network_difference(note) for note in notes]
        report = StepReport(
            index=step.index,
            recorded=Side(
                screenshot=step.screenshot,
                aria=step.aria,
                action=step.performed,
                target=step.target,
                to_target=step.to_target,
                ms=step.step_ms,
            ),
            replayed=Side(
                screenshot=look.sha256,
                aria=aria,
                action=action,
                ms=(time.perf_counter() - begun) * 1000,
            ),
            same=not differences,
            differences=differences,
        )
        self.steps.append(report)
        return report

    def _is_accepted(self, step: StepLine, action: Any) -> bool:
        return any(
            not action_differences(one.action, action, self._rule) for one in self._accepted(step)
        )

    async def _perform(self, step: StepLine) -> Performed | None:
        """None: nothing was done, neither then nor now."""
        if step.performed is None:
            return None
        if isinstance(step.performed, Unsupported):
            self.notes.append(f"step {step.index} was gone by: {step.performed.what}")
            return None
        action = self._places.action(step.performed)
        if self._fill is not None:
            action = self._fill(action)
        return await self._computer.perform_recorded(action, step.target, step.to_target)


def aim_differences(step: StepLine, performed: Performed, tolerance_px: float) -> list[Difference]:
    """Whether the element was found, and where. Pure."""
    differences = []
    if _sought(step.target) and points(step.performed) and performed.found_by is None:
        differences.append(
            Difference(
                comparer="action",
                field="action.target",
                recorded=step.target.text or step.target.tag,
                message="no selector of the recording finds the element any more; the action was "
                "aimed at the recorded point",
            )
        )
    elif performed.found_by and _by_place(performed.found_by) and _another_text(step, performed):
        differences.append(
            Difference(
                comparer="action",
                field="action.target",
                recorded=step.target.text,
                replayed=performed.found_text,
                message="the element was found by its place alone, and shows another text",
            )
        )
    names = ("action.point", "action.to_point")
    pairs = zip(points(step.performed), points(performed.action), strict=True)
    for name, (was, now) in zip(names, pairs, strict=False):
        if math.dist(was, now) > tolerance_px:
            differences.append(
                Difference(
                    comparer="action",
                    field=name,
                    recorded=list(was),
                    replayed=list(now),
                    message=f"the element has moved by {math.dist(was, now):.0f} px",
                )
            )
    return differences


def outcome_differences(
    recorded: Outcome, replayed: Outcome, *, messages: bool
) -> list[Difference]:
    """What became of an action. Without ``messages``, which other tools do not keep, whether it
    could be done. Pure."""
    if recorded.status != replayed.status:
        return [
            Difference(
                comparer="outcome",
                field="outcome.status",
                recorded=recorded.status,
                replayed=replayed.status,
                message=replayed.message or recorded.message,
            )
        ]
    if messages and recorded.message != replayed.message:
        return [
            Difference(
                comparer="outcome",
                field="outcome.message",
                recorded=recorded.message,
                replayed=replayed.message,
                message="the page answered otherwise",
            )
        ]
    return []


def _by_place(chain: Chain) -> bool:
    """Whether a chain says where its element is, and not which one it is."""
    last = chain[-1]
    return last.engine == "xpath" or (last.engine == "css" and ":nth-" in last.value)


def _another_text(step: StepLine, performed: Performed) -> bool:
    """Long texts are those of containers: they change, and say little about which one it is."""
    text = step.target.text if step.target else ""
    return 0 < len(text) <= LONGEST_LABEL and text != performed.found_text


def _sought(target: ElementTarget | None) -> bool:
    return target is not None and bool(target.selectors)


def _at_points_of(recorded: Any, performed: Any) -> Any:
    names = ("x", "y", "to_x", "to_y")
    moved = {name: getattr(performed, name) for name in names if hasattr(recorded, name)}
    return recorded.model_copy(update=moved)


def _network_difference(note: NetworkNote) -> Difference:
    return Difference(
        comparer="network",
        field=f"network.{note.what}",
        recorded=note.recorded,
        replayed=note.replayed,
        message=note.request,
    )


def _unsupported(step: StepLine, action: Unsupported) -> ReplayFailure:
    return ReplayFailure(
        index=step.index,
        code="unsupported_step",
        message=f"step {step.index} has no equal here: {action.what}",
        hint="have the replay go by such steps, or record it anew",
    )
