"""``agentserve bench pruning``: what each way to leave out visual tokens costs and saves.

Every setting plays the same sessions, and all of them go on from the same earlier answers: those
that ``off`` gave. So a turn's prompt differs from the unpruned one by the tokens left out alone,
and its answer can be compared with the unpruned one.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from agentserve.bench.calls import Call
from agentserve.bench.origin import Origin
from agentserve.bench.player import Played, SessionPlayer
from agentserve.bench.scripts import Script
from agentserve.bench.settings import Setting
from agentserve.bench.tape import Tape
from agentserve.bench.worker import BenchWorker
from agentserve.core.model import Wire
from agentserve.core.pruning import Compression
from agentserve.core.sessions import ScreenPolicy
from agentserve.vision.layouts import Layout
from agentserve.vision.policies import check_thinning, parse_policy

Progress = Callable[[], None]
"""Is called after each turn."""


class SettingFigures(Wire):
    """One setting over all turns; counts are of visual tokens unless said otherwise. A ratio is to
    the same figure of ``off``; None where the worker does not tell."""

    name: str
    compression: Compression
    sent: int
    """Of what the turns showed anew."""
    kept: int
    """Of these, in the KV cache behind the answer."""
    kept_share: float
    flops: int | None
    """That the language model took for the prompts, counted by the worker."""
    flops_ratio: float | None
    computed_per_turn: float
    """Tokens of the prompt that were computed, text as well."""
    held: float
    """Median of the KV slots, text as well, that a session holds between two turns."""
    held_ratio: float
    ttft_ms: float
    """Median over the turns; of each turn the fastest of the rounds."""
    ttft_ratio: float
    same_first: float
    """Share of the turns, of all rounds, whose first token is the one that ``off`` gave."""
    same_answer: float
    """Share of them whose whole answer is."""
    unchosen: int
    """Turns in which the engine could not do what it was asked."""
    lost: int
    """Turns that found less in the cache than the turn before had left there."""


class TapeFacts(Wire):
    name: str
    screen: str
    """In model px."""
    turns: int


class PruningReport(Wire):
    """What ``--json`` prints."""

    tapes: list[TapeFacts]
    model: str
    device: str
    cell: int | None
    vision_context: str
    rounds: int
    turns: int
    """Of each setting and round."""
    origin: Origin
    settings: list[SettingFigures]
    """``off`` is the first."""


@dataclass(frozen=True)
class Session:
    """A tape and what is written around its screens."""

    tape: Tape
    script: Script


@dataclass(frozen=True)
class _Rounds:
    """A setting's turns, of all sessions one after the other, round by round."""

    turns: list[list[Played]] = field(default_factory=list)

    @property
    def every(self) -> Iterable[Played]:
        return (turn for turns in self.turns for turn in turns)


def measure(
    worker: BenchWorker,
    sessions: Sequence[Session],
    settings: Sequence[Setting],
    screens: ScreenPolicy,
    rounds: int,
    origin: Origin,
    progress: Progress,
) -> PruningReport:
    """Play the sessions under each setting, ``off`` first, each on an empty prefix cache, round by
    round. ``screens`` says how they are sent otherwise: a mosaic without compression.

    The vision encoder's work is done again only where a setting shows it other pictures: the worker
    keeps it, so that in the second round the times are those of the language model.

    Raises InvalidRequest when the model cannot do a setting, and what the worker's client raises.
    """
    policy, report = parse_policy(screens.policy), worker.report
    for setting in settings:
        check_thinning(policy, setting.compression, worker.family, report.layers)
    played = [_Rounds() for _ in settings]
    forced: list[Played] = []
    for number in range(rounds):
        for index, (setting, of) in enumerate(zip(settings, played, strict=True)):
            compression = setting.compression
            changes = {"pruning": compression.pruning, "eviction": compression.eviction}
            asked = screens.model_copy(update=changes)
            owner = f"bench-{number}-{index}"
            of.turns.append(_play(worker, sessions, asked, owner, forced, progress))
            forced = forced or of.turns[0]
    figures = [_figures(*pair, played[0]) for pair in zip(settings, played, strict=True)]
    return PruningReport(
        tapes=[
            TapeFacts(name=tape.name, screen=str(tape.space.model), turns=len(tape.screens))
            for tape in (session.tape for session in sessions)
        ],
        model=worker.model,
        device=report.device,
        cell=screens.cell,
        vision_context=screens.vision_context,
        rounds=rounds,
        turns=len(forced),
        origin=origin,
        settings=figures,
    )


def _play(
    worker: BenchWorker,
    sessions: Sequence[Session],
    screens: ScreenPolicy,
    owner: str,
    forced: Sequence[Played],
    progress: Progress,
) -> list[Played]:
    """All sessions, one after the other. None shares cells with another: what is shared is never
    chosen from by the text around it."""
    turns: list[Played] = []
    for number, session in enumerate(sessions):
        worker.flush()
        name = f"{owner}-{number}"
        player = SessionPlayer(worker, screens, session.tape, name, session.script, Layout())
        for turn in range(len(session.tape.screens)):
            calls: Sequence[Call] = forced[len(turns)].calls if forced else ()
            turns.append(player.turn(turn, calls))
            progress()
    return turns


def _figures(setting: Setting, rounds: _Rounds, off: _Rounds) -> SettingFigures:
    turns = [turn.figures for turn in rounds.turns[0]]
    base = [turn.figures for turn in off.turns[0]]
    sent, kept = sum(turn.sent for turn in turns), sum(turn.kept for turn in turns)
    flops, base_flops = _sum(t.flops for t in turns), _sum(t.flops for t in base)
    held, base_held = (statistics.median(t.held for t in of) for of in (turns, base))
    ttft_ms, base_ms = _ttft_ms(rounds), _ttft_ms(off)
    asked = off.turns[0] * len(rounds.turns)
    pairs = list(zip(rounds.every, asked, strict=True))
    return SettingFigures(
        name=setting.name,
        compression=setting.compression,
        sent=sent,
        kept=kept,
        kept_share=kept / sent,
        flops=flops,
        flops_ratio=None if flops is None or not base_flops else flops / base_flops,
        computed_per_turn=statistics.fmean(turn.prefilled for turn in turns),
        held=held,
        held_ratio=held / base_held,
        ttft_ms=ttft_ms,
        ttft_ratio=ttft_ms / base_ms,
        same_first=statistics.fmean(_first(one) == _first(other) for one, other in pairs),
        same_answer=statistics.fmean(_whole(one) == _whole(other) for one, other in pairs),
        unchosen=sum(turn.figures.unchosen is not None for turn in rounds.every),
        lost=sum(turn.figures.cached < turn.figures.expected for turn in rounds.every),
    )


def _ttft_ms(rounds: _Rounds) -> float:
    by_turn = zip(*rounds.turns, strict=True)
    return statistics.median(min(t.figures.ttft_ms for t in same) for same in by_turn)


def _first(turn: Played) -> int:
    return turn.calls[0].ids[0]


def _whole(turn: Played) -> list[tuple[int, ...]]:
    return [call.ids for call in turn.calls]


def _sum(values: Iterable[int | None]) -> int | None:
    """None when one of them is."""
    known = list(values)
    return None if None in known else sum(value for value in known if value is not None)
