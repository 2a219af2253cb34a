"""What to collect: which seeds, which task where. And what came of it."""

from __future__ import annotations

import difflib
import random
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from agentserve.browser import miniwob
from agentserve.core.errors import InvalidRequest
from agentserve.nano import oracles
from agentserve.nano.collect.scripts import WORDS

FIRST_SEED = 10_000
"""Smaller seeds are for evaluation; nothing is ever collected from them."""
SEEDS_EACH = 100_000_000
"""Seeds that one ``seed`` of the command stands for."""

Mode = Literal["grid", "solo"]
MODES: tuple[Mode, ...] = ("grid", "solo")

Progress = Callable[[int], None]
"""Is told how many screens there are so far."""


@dataclass(frozen=True)
class Plan:
    """What to collect."""

    out: Path
    screens: int
    """New screens; some more may come in the end."""
    tasks: tuple[str, ...]
    mode: Mode = "grid"
    """``grid``: first screens, many at a time. ``solo``: whole episodes."""
    words_share: float = 0.4
    """Share of a grid's tiles that shows the synthetic page ``words``."""
    augment: float = 0.5
    """Share of the screens (solo: of the episodes) that are restyled."""
    seed: int = 0
    pages: int = 2
    """Pages at work side by side."""


@dataclass
class Summary:
    """What was collected."""

    screens: int = 0
    seconds: float = 0.0
    shards: list[str] = field(default_factory=list)
    by_task: Counter[str] = field(default_factory=Counter)
    """Screens."""
    with_step: Counter[str] = field(default_factory=Counter)
    """Of those: screens for which the oracle knew the next step."""
    episodes: Counter[str] = field(default_factory=Counter)
    """Solo: episodes that were solved and kept."""
    unsolved: Counter[str] = field(default_factory=Counter)
    """Solo: episodes that were not, and were left out."""
    failures: dict[str, str] = field(default_factory=dict)
    """task -> the last error of its page or its oracle."""

    def add(self, record: dict[str, object]) -> None:
        """Count a screen's record."""
        task = str(record["task"])
        self.screens += 1
        self.by_task[task] += 1
        self.with_step[task] += record["action"] is not None


def seed_range(seed: int, mode: Mode) -> tuple[int, int]:
    """The seeds, first and end, that ``seed`` of the command stands for; no two ranges meet.

    Raises InvalidRequest for a negative one.
    """
    if seed < 0:
        raise InvalidRequest(f"the seed must not be negative, got {seed}")
    size = SEEDS_EACH // len(MODES)
    low = FIRST_SEED + seed * SEEDS_EACH + MODES.index(mode) * size
    return low, low + size


def check_plan(plan: Plan) -> None:
    """Raises InvalidRequest for a plan that cannot be carried out."""
    known = oracles.TASKS if plan.mode == "solo" else miniwob.page_names()
    for task in plan.tasks:
        if task not in known:
            near = difflib.get_close_matches(task, known, n=2)
            why = "no oracle plays" if plan.mode == "solo" else "there is no MiniWoB++ task"
            raise InvalidRequest(
                f"{why} {task!r}", hint=f"did you mean {' or '.join(near)}?" if near else ""
            )
    if not plan.tasks and plan.mode == "solo":
        raise InvalidRequest("there is no task to play")
    seed_range(plan.seed, plan.mode)


def deal_tasks(
    tasks: Sequence[str], tiles: int, words_share: float, chance: random.Random
) -> list[str]:
    """One task a tile: the share of words, and of the others each as often as the next."""
    words = min(tiles, round(tiles * words_share)) if tasks else tiles
    dealt = [WORDS] * words
    while len(dealt) < tiles:
        dealt += chance.sample(list(tasks), min(len(tasks), tiles - len(dealt)))
    # a task keeps its tile where it can: loading its page anew costs more than a round
    return sorted(dealt)
