"""Reading routers again and again: what ``agentserve top`` compares."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from agentserve.cli.top_figures import Figures, Interval, Reading, Samples, figures
from agentserve.client import RouterClient
from agentserve.core.errors import AgentServeError
from agentserve.core.workers import Worker

FORGET_AFTER = 5
"""Rounds in which a router process did not answer: behind a proxy others did, in turns."""


@dataclass
class _Answer:
    reading: Reading | None = None
    workers: list[Worker] = field(default_factory=list)
    trouble: str = ""


class Watch:
    """What each router process told last, and before that."""

    def __init__(self, clients: Sequence[RouterClient]) -> None:
        self._clients = clients
        self._rounds = 0
        self._answered: dict[str, int] = {}
        """The round of a process's last answer."""
        self._latest: dict[str, Reading] = {}
        self._intervals: dict[str, Interval] = {}

    async def look(self) -> Figures:
        """Ask all of them. One that cannot be reached is a trouble, not an error."""
        self._rounds += 1
        troubles: dict[str, str] = {}
        workers: dict[str, Worker] = {}
        answers = await asyncio.gather(*map(_ask, self._clients))
        for client, answer in zip(self._clients, answers, strict=True):
            if answer.trouble:
                troubles[client.url] = answer.trouble
            if answer.reading is not None:
                self._note(answer.reading)
            else:
                self._forget(lambda reading, url=client.url: reading.url == url)
            for worker in answer.workers:
                workers.setdefault(worker.id, worker)
        oldest = self._rounds - FORGET_AFTER
        self._forget(lambda reading: self._answered[reading.router] <= oldest)
        return figures(self._latest.values(), self._intervals.values(), workers.values(), troubles)

    def _note(self, reading: Reading) -> None:
        name = reading.router
        if (before := self._latest.get(name)) is not None:
            self._intervals[name] = Interval(before, reading)
        self._latest[name] = reading
        self._answered[name] = self._rounds

    def _forget(self, these: Callable[[Reading], bool]) -> None:
        for name in [name for name, reading in self._latest.items() if these(reading)]:
            del self._latest[name]
            self._intervals.pop(name, None)


async def _ask(client: RouterClient) -> _Answer:
    """The metrics come without the store, the workers do not."""
    answer = _Answer()
    try:
        answer.reading = Reading(client.url, time.monotonic(), Samples(await client.metrics()))
        answer.workers = (await client.workers()).workers
    except AgentServeError as error:
        answer.trouble = error.message
    return answer
