"""What ``agentserve nano evaluate`` shows while it plays: a bar a task on a terminal, elsewhere a
line when a task is through."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from agentserve.nano.evaluate.episodes import PLAYERS, Episode, Job


class EvaluationView:
    """Counts what was played and shows it on ``console`` while it is entered.

    ``jobs`` are all that belong to the evaluation, ``played`` those that are done beforehand.
    """

    def __init__(self, console: Console, jobs: Iterable[Job], played: Iterable[Episode]) -> None:
        self._console = console
        self._total = Counter(job.task for job in jobs)
        self._played: Counter[tuple[str, str]] = Counter()
        self._successes: Counter[tuple[str, str]] = Counter()
        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=20),
            MofNCompleteColumn(),
            TextColumn("{task.fields[rates]}"),
            TimeElapsedColumn(),
            console=console,
            disable=not console.is_terminal,
        )
        self._bars = {
            task: self._progress.add_task(task, total=total, start=False, rates="")
            for task, total in self._total.items()
        }
        for episode in played:
            self._count(episode)

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._progress.stop()

    def add(self, episode: Episode) -> None:
        self._count(episode)
        if not self._console.is_terminal and self._done(episode.task) == self._total[episode.task]:
            self._console.print(f"{episode.task}: {self.rates(episode.task)}")

    def rates(self, task: str) -> str:
        """``trained 12/20, random 1/20, oracle 20/20``: successes of the episodes so far."""
        return ", ".join(
            f"{player} {self._successes[task, player]}/{self._played[task, player]}"
            for player in PLAYERS
            if self._played[task, player]
        )

    def _count(self, episode: Episode) -> None:
        self._played[episode.task, episode.player] += 1
        self._successes[episode.task, episode.player] += episode.success
        bar = self._bars[episode.task]
        self._progress.start_task(bar)
        done = self._done(episode.task)
        self._progress.update(bar, completed=done, rates=self.rates(episode.task))
        if done == self._total[episode.task]:
            self._progress.stop_task(bar)

    def _done(self, task: str) -> int:
        return sum(self._played[task, player] for player in PLAYERS)
