"""The nouns of an evaluation: what is played, under which conditions, and how it went."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from agentserve.core.model import Wire
from agentserve.core.runs import EndReason
from agentserve.core.sessions import ScreenPolicy, Usage

HELD_OUT = 10_000
"""Seeds below it are for evaluation: nothing is ever trained on them."""

PlayerName = Literal["trained", "random", "oracle"]
PLAYERS: tuple[PlayerName, ...] = ("trained", "random", "oracle")
"""In the order of the tables' columns. All but the first are baselines."""
BASELINES: tuple[PlayerName, ...] = PLAYERS[1:]


class Job(Wire):
    """One episode to play."""

    task: str
    """Name of a MiniWoB++ page."""
    seed: int = Field(ge=0, lt=HELD_OUT)
    player: PlayerName


class Played(Wire):
    """How an episode went, told by its player."""

    success: bool
    """The task's raw reward was at least browser.miniwob.SUCCESS."""
    reward: float
    end: EndReason
    """``error`` when the machinery failed, which says nothing about the player."""
    message: str = ""
    turns: int
    turn_ms: list[float] = Field(default_factory=list)
    """How long the router took for each turn; empty for a baseline."""
    step_ms: list[float] = Field(default_factory=list)
    """The same with screenshot, action and check; empty for a baseline."""
    usage: Usage = Field(default_factory=Usage)
    """Tokens, summed over the turns; nothing for a baseline."""


class Episode(Job, Played):
    """One episode that was played."""

    attempts: int = Field(default=1, ge=1)
    """How often it was begun: what the machinery breaks off is played again."""
    seconds: float
    """The last attempt, opening the page included."""

    @property
    def job(self) -> Job:
        return Job(task=self.task, seed=self.seed, player=self.player)


class Conditions(Wire):
    """Everything but task and seed that may change an outcome. Results of different conditions are
    never put together."""

    model: str
    """As the worker serves it."""
    model_sha256: str | None
    """Of its weights; None when they do not lie on this machine."""
    program: str
    program_sha256: str | None
    screens: ScreenPolicy
    max_turns: int | None
    """None: each scenario's own."""
    versions: dict[str, str]
    """Of what takes part: agentserve, sglang, chromium, miniwob, …"""


def plan(tasks: tuple[str, ...], episodes: int, players: tuple[PlayerName, ...]) -> list[Job]:
    """All episodes, task by task, the players' turns of one seed beside each other: whatever part
    of it is done, the players are compared on the same seeds."""
    return [
        Job(task=task, seed=seed, player=player)
        for task in tasks
        for seed in range(episodes)
        for player in players
    ]
