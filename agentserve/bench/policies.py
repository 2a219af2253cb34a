"""``agentserve bench policies``: what each policy costs on the same screens and the same worker."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence

from pydantic import Field

from agentserve.bench.origin import Origin
from agentserve.bench.player import SessionPlayer, TurnFigures
from agentserve.bench.scripts import Filler, Texts
from agentserve.bench.tape import Tape
from agentserve.bench.worker import BenchWorker
from agentserve.core.model import Wire
from agentserve.core.sessions import ScreenPolicy
from agentserve.vision.cells import as_pixels, cut
from agentserve.vision.layouts import Layout, LayoutLearner
from agentserve.vision.policies import check_policy, parse_policy

SESSIONS = 2
"""The second one shows what sessions of one surface share."""

Progress = Callable[[], None]
"""Is called after each turn."""


class SessionFigures(Wire):
    """One session's turns, summed up. Means and counts are of tokens."""

    turns: int
    sent_per_turn: float
    """The prompt."""
    prefilled_per_turn: float
    """What of it was computed."""
    prefilled_after_first_per_turn: float
    largest_prompt: int
    visual_kv_peak: int
    """Visual tokens of the largest prompt, those that its turn supersedes included."""
    visual_kv_after: int
    """The most visual tokens that are held between two turns."""
    largest_held: int
    """The most tokens that are held between two turns."""
    encoder_calls: int | None
    """Pictures that the vision encoder saw; None when the worker does not tell."""
    ttft_ms: float
    """Median."""
    first_cached: int
    """Tokens of the first prompt that the worker had."""
    first_shared: int
    """Tokens of the first screen in static cells of the surface."""
    first_shared_cached: int
    """Of these, those that the worker had."""
    lost: int
    """Turns that found less in the cache than the turn before had left there."""


class PolicyFigures(SessionFigures):
    """A policy's first session, cold; ``again`` is a second one of the same surface."""

    policy: str
    again: SessionFigures
    ratio: dict[str, float] = Field(default_factory=dict)
    """Of figures to those of the first policy."""
    by_turn: list[TurnFigures]


class PoliciesReport(Wire):
    """What ``--json`` prints for one tape."""

    tape: str
    screen: str
    """In model px."""
    model: str
    device: str
    cell: int | None
    origin: Origin
    policies: list[PolicyFigures]


def measure(
    worker: BenchWorker,
    tape: Tape,
    policies: Sequence[ScreenPolicy],
    texts: Texts,
    origin: Origin,
    progress: Progress,
) -> PoliciesReport:
    """Play the tape under each policy, one after the other, each on an empty prefix cache.

    Raises InvalidRequest when the model cannot run a policy, and what the worker's client raises.
    """
    figures = [_policy(worker, tape, screens, texts, progress) for screens in policies]
    first = figures[0]
    for one in figures:
        one.ratio.update(
            {name: _ratio(getattr(one, name), getattr(first, name)) for name in _COMPARED}
        )
    return PoliciesReport(
        tape=tape.name,
        screen=str(tape.space.model),
        model=worker.model,
        device=worker.report.device,
        cell=policies[0].cell,
        origin=origin,
        policies=figures,
    )


_COMPARED = (
    "sent_per_turn", "prefilled_per_turn", "prefilled_after_first_per_turn", "largest_prompt",
    "ttft_ms",
)  # fmt: skip


def _policy(
    worker: BenchWorker, tape: Tape, screens: ScreenPolicy, texts: Texts, progress: Progress
) -> PolicyFigures:
    worker.flush()
    layout = _layout(worker, tape, screens)
    sessions: list[list[TurnFigures]] = []
    for number in range(SESSIONS):
        owner = f"bench-{screens.policy}-{number}"
        script = Filler(worker, texts, owner, tape.texts)
        player = SessionPlayer(worker, screens, tape, owner, script, layout)
        turns = []
        for turn in range(len(tape.screens)):
            turns.append(player.turn(turn).figures)
            progress()
        sessions.append(turns)
    once, again = map(_summary, sessions)
    return PolicyFigures(
        policy=screens.policy, again=again, by_turn=sessions[0], **once.model_dump()
    )


def _layout(worker: BenchWorker, tape: Tape, screens: ScreenPolicy) -> Layout:
    """The surface's, as two earlier sessions would have taught it."""
    cell = check_policy(parse_policy(screens.policy), worker.family, screens.cell)
    learner = LayoutLearner()
    if cell is not None:
        seen = [cut(as_pixels(screen), cell).identities for screen in tape.screens]
        for session in ("one", "another"):
            learner = learner.observe(session, seen)
    return learner.layout


def _summary(turns: Sequence[TurnFigures]) -> SessionFigures:
    later = turns[1:]
    encoded = [turn.encoded for turn in turns]
    return SessionFigures(
        turns=len(turns),
        sent_per_turn=statistics.fmean(turn.prompt for turn in turns),
        prefilled_per_turn=statistics.fmean(turn.prefilled for turn in turns),
        prefilled_after_first_per_turn=(
            statistics.fmean(turn.prefilled for turn in later) if later else 0.0
        ),
        largest_prompt=max(turn.prompt for turn in turns),
        visual_kv_peak=max(turn.visual for turn in turns),
        visual_kv_after=max(turn.visual_held for turn in turns),
        largest_held=max(turn.held for turn in turns),
        encoder_calls=None if None in encoded else sum(n for n in encoded if n is not None),
        ttft_ms=statistics.median(turn.ttft_ms for turn in turns),
        first_cached=turns[0].cached,
        first_shared=turns[0].shared,
        first_shared_cached=turns[0].shared_cached,
        lost=sum(turn.cached < turn.expected for turn in later),
    )


def _ratio(value: float, base: float) -> float:
    return round(value / base, 4) if base else 0.0
