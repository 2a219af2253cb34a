"""Mode ``browser``: the recorded actions on the live pages, the screens compared before each."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable
from typing import Any

from agentserve.core.actions import Done
from agentserve.core.actions.recorded import CloseTab, Unsupported
from agentserve.core.errors import AgentServeError, RecordingError
from agentserve.core.runs import Performed, RecordedComputer
from agentserve.replay.bundle.format import StepLine
from agentserve.replay.bundle.reader import Recording
from agentserve.replay.compare.difference import Difference
from agentserve.replay.compare.expectations import Expectations
from agentserve.replay.modes.judging import (
    aim_differences,
    network_differences,
    outcome_differences,
)
from agentserve.replay.modes.looking import CompareAria, CompareScreens, Looker
from agentserve.replay.modes.places import Places
from agentserve.replay.modes.reporting import failure_of, report_of
from agentserve.replay.redaction.secrets import Secrets
from agentserve.replay.results import OnStep, Replayed, ReplayFailure, Side, StepReport

LATE_S = 5.0

Fill = Callable[[Any], Any]
"""Gives an action with its secrets filled in. Raises InvalidRequest for one that is not given."""
NO_SECRETS = Secrets({})
DEFAULT = Expectations()


async def replay_browser(
    computer: RecordedComputer,
    recording: Recording,
    *,
    compare_screens: CompareScreens,
    compare_aria: CompareAria | None = None,
    fill: Fill | None = None,
    secrets: Secrets = NO_SECRETS,
    expectations: Expectations = DEFAULT,
    late_s: float = LATE_S,
    go_by_unsupported: bool = False,
    on_step: OnStep | None = None,
) -> Replayed:
    """Do what was recorded on the page that ``computer`` shows, which is where it began.

    A step without a recorded screenshot is done, and what became of it is compared. What elements
    may do otherwise is said by each step's ``expectations``; a page may be ``late_s`` later than it
    was, and so long the requests that are open at the end are waited for. No text of the page is
    compared or told before its ``secrets`` are replaced by their names. A page that is no more ends
    the replay, as a step does that has no equal here unless it is gone by; both are part of the
    report. Raises RecordingError for a damaged entry.
    """
    begun = time.perf_counter()
    if recording.meta.space is not None:
        computer.fit(recording.meta.space)
    own = recording.meta.source != "import"
    places = Places(recording.meta.url, secrets.hidden(computer.url), anchors=own)
    looker = Looker(
        computer, recording, places, compare_screens, compare_aria, late_s, secrets.hidden
    )
    replay = _Replay(computer, recording, places, looker, fill, secrets, expectations)
    differences: list[Difference] = []
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
            failure = failure_of(error, step.index, secrets.hidden)
            break
        if on_step is not None:
            on_step(report)
    if failure is None:
        differences = await replay.left_open(late_s)
    tolerance_px = expectations.actions.tolerance_px
    return Replayed(
        report_of(
            recording,
            "browser",
            replay.steps,
            error=failure,
            differences=differences,
            settings={"tolerance": f"{tolerance_px:g} px", "late": f"{late_s:g} s"},
            notes=[*replay.notes, *_not_looked_at(recording, expectations)],
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
        secrets: Secrets,
        expectations: Expectations,
    ) -> None:
        self._computer = computer
        self._messages = recording.meta.source != "import"
        self._taken = len(recording.taken)
        self._places = places
        self._looker = looker
        self._fill = fill
        self._secrets = secrets
        self._expectations = expectations
        self.steps: list[StepReport] = []
        self.notes: list[str] = []
        self.pictures: dict[str, bytes] = {}
        self.arias: dict[str, bytes] = {}

    async def step(self, step: StepLine) -> StepReport:
        begun = time.perf_counter()
        look = await self._looker.look(step)
        self.pictures[look.sha256] = look.picture
        aria = None  # an empty page has an empty snapshot
        if look.aria is not None:
            aria = hashlib.sha256(look.aria).hexdigest()
            self.arias[aria] = look.aria
        performed = await self._perform(step)
        own = self._expectations.at(step.index)
        differences = [*look.differences]
        # as it is recorded, but for its points: secrets are not told
        action = performed and _at_points_of(step.performed, performed.action)
        if performed is not None:
            differences += aim_differences(step, performed, own)
            differences += outcome_differences(
                step.outcome, performed.outcome, messages=self._messages
            )
        differences += network_differences(await self._computer.network_notes(), self._secrets)
        report = StepReport(
            index=step.index,
            recorded=Side(
                # what the page is compared with
                screenshot=(own.accepted_screens or (step.screenshot,))[-1],
                aria=(own.accepted_aria or (step.aria,))[-1],
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
            closing=step.index >= self._taken,
            differences=differences,
        )
        self.steps.append(report)
        return report

    async def left_open(self, late_s: float) -> list[Difference]:
        """What the last step's requests come to, or that they come to nothing."""
        notes = await self._computer.network_notes(late_s)
        return network_differences(notes, self._secrets)

    async def _perform(self, step: StepLine) -> Performed | None:
        """None: nothing was done, neither then nor now."""
        if step.performed is None:
            return None
        if isinstance(step.performed, Unsupported):
            self.notes.append(f"step {step.index} was gone by: {step.performed.what}")
            return None
        if isinstance(step.performed, CloseTab) and step.index == self._taken - 1:
            # the end of a recording; a check of the task, and of expect.json, needs the page
            return Performed(action=step.performed, outcome=step.outcome)
        action = self._places.action(step.performed)
        if self._fill is not None:
            action = self._fill(action)
        done = await self._computer.perform_recorded(action, step.target, step.to_target)
        hidden = self._secrets.hidden
        return done.model_copy(
            update={
                "outcome": self._secrets.hidden_in(done.outcome),
                "found_text": hidden(done.found_text),
            }
        )


def _at_points_of(recorded: Any, performed: Any) -> Any:
    names = ("x", "y", "to_x", "to_y")
    moved = {name: getattr(performed, name) for name in names if hasattr(recorded, name)}
    return recorded.model_copy(update=moved)


def _not_looked_at(recording: Recording, expectations: Expectations) -> list[str]:
    """A recording that ends with an action has no screen behind it: nothing but a check of the task
    or of expect.json says what that came to."""
    checked = recording.end is not None and recording.end.success is not None
    if checked or expectations.outcome.expression is not None or not recording.steps:
        return []
    if isinstance(recording.steps[-1].performed, Done | None):
        return []
    return [
        "what the last step led to on the screen is not compared: the recording has no screen "
        "after it; an outcome.expression in expect.json can ask the page"
    ]


def _unsupported(step: StepLine, action: Unsupported) -> ReplayFailure:
    return ReplayFailure(
        index=step.index,
        code="unsupported_step",
        message=f"step {step.index} has no equal here: {action.what}",
        hint="have the replay go by such steps, or record it anew",
    )
