"""Figures of an evaluation: rates with their intervals, and a hash that stands for the outcome."""

from __future__ import annotations

import hashlib
import json
import math
import statistics
from collections import defaultdict
from collections.abc import Iterable

from agentserve.core.model import Wire
from agentserve.nano.evaluate.episodes import PLAYERS, Conditions, Episode, PlayerName

Z_95 = statistics.NormalDist().inv_cdf(0.975)
MASTERED = 0.95
"""From this rate on a task counts as one that the player has."""
HASH_DIGITS = 12
_LATER = ("preset", "pruning", "eviction")
"""Settings that older runs did not know: they keep their hash."""


class Score(Wire):
    """What one player reached in one task. Rates are shares from 0 to 1."""

    episodes: int
    successes: int
    errors: int
    """Episodes that the machinery broke off. They count as played without success."""
    rate: float
    low: float
    high: float
    """The 95 % interval of the rate, by Wilson."""
    mean_turns: float
    median_turn_ms: float | None
    """By the router; None for players that ask none."""


class TaskScores(Wire):
    task: str
    players: dict[PlayerName, Score]


class PlayerSummary(Wire):
    """One player over all tasks, each of which weighs the same."""

    tasks: int
    mean_rate: float
    mastered: int
    """Tasks with a rate of MASTERED or more."""


class Scores(Wire):
    """All figures, in the order in which the tasks were named."""

    tasks: list[TaskScores]
    summary: dict[PlayerName, PlayerSummary]
    run: str
    """See ``run_hash``."""

    @property
    def players(self) -> list[PlayerName]:
        return list(self.summary)

    @property
    def errors(self) -> int:
        return sum(score.errors for task in self.tasks for score in task.players.values())


def wilson(successes: int, episodes: int, z: float = Z_95) -> tuple[float, float]:
    """The Wilson score interval of a rate, as (low, high) within 0 to 1.

    Raises ValueError unless 0 <= successes <= episodes and episodes > 0.
    """
    if not 0 <= successes <= episodes or episodes == 0:
        raise ValueError(f"{successes} of {episodes} is no rate")
    rate = successes / episodes
    spread = z * math.sqrt(rate * (1 - rate) / episodes + z * z / (4 * episodes * episodes))
    middle = rate + z * z / (2 * episodes)
    scale = 1 + z * z / episodes
    # at the ends the exact bound is 0 or 1, which rounding can miss
    low = 0.0 if successes == 0 else (middle - spread) / scale
    high = 1.0 if successes == episodes else (middle + spread) / scale
    return low, high


def score(episodes: list[Episode]) -> Score:
    """The figures of one player's episodes of one task; there must be at least one."""
    successes = sum(episode.success for episode in episodes)
    low, high = wilson(successes, len(episodes))
    turn_ms = [ms for episode in episodes for ms in episode.turn_ms]
    return Score(
        episodes=len(episodes),
        successes=successes,
        errors=sum(episode.end == "error" for episode in episodes),
        rate=successes / len(episodes),
        low=low,
        high=high,
        mean_turns=statistics.fmean(episode.turns for episode in episodes),
        median_turn_ms=statistics.median(turn_ms) if turn_ms else None,
    )


def reckon(conditions: Conditions, tasks: Iterable[str], episodes: Iterable[Episode]) -> Scores:
    """All figures of ``episodes``. Tasks and players without an episode are left out."""
    groups: dict[tuple[str, PlayerName], list[Episode]] = defaultdict(list)
    for episode in episodes:
        groups[episode.task, episode.player].append(episode)
    rows = [
        TaskScores(
            task=task,
            players={
                player: score(groups[task, player])
                for player in PLAYERS
                if (task, player) in groups
            },
        )
        for task in tasks
    ]
    rows = [row for row in rows if row.players]
    summary = {
        player: _summary([row.players[player] for row in rows if player in row.players])
        for player in PLAYERS
        if any(player in row.players for row in rows)
    }
    played = [episode for group in groups.values() for episode in group]
    return Scores(tasks=rows, summary=summary, run=run_hash(conditions, played))


def _summary(scores: list[Score]) -> PlayerSummary:
    return PlayerSummary(
        tasks=len(scores),
        mean_rate=statistics.fmean(score.rate for score in scores),
        mastered=sum(score.rate >= MASTERED for score in scores),
    )


def run_hash(conditions: Conditions, episodes: Iterable[Episode]) -> str:
    """HASH_DIGITS hex digits that stand for what was evaluated and which episodes succeeded.

    Times, versions and the order of playing do not enter it: whoever repeats the run with the same
    weights and gets the same outcomes gets the same hash.
    """
    outcomes: dict[str, dict[str, dict[str, list[int]]]] = {}
    for episode in sorted(episodes, key=lambda one: (one.task, one.player, one.seed)):
        players = outcomes.setdefault(episode.task, {})
        lists = players.setdefault(episode.player, {"seeds": [], "successes": []})
        lists["seeds"].append(episode.seed)
        if episode.success:
            lists["successes"].append(episode.seed)
    what = conditions.model_dump(
        include={"model_sha256", "program_sha256", "screens", "max_turns"}
    ) | {"outcomes": outcomes}
    for name in _LATER:
        if what["screens"][name] is None:
            del what["screens"][name]
    canonical = json.dumps(what, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(canonical.encode()).hexdigest()[:HASH_DIGITS]
