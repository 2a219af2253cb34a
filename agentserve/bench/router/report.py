"""``agentserve bench router``: what the router costs."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from pydantic import Field

from agentserve.bench.origin import Origin
from agentserve.bench.router.passing import PassingLoad, measure_passing
from agentserve.bench.router.targets import Target
from agentserve.bench.router.turns import TurnFigures, measure_turns
from agentserve.core.model import Wire

Progress = Callable[[], None]


class RouterReport(Wire):
    """What ``--json`` prints."""

    origin: Origin
    versions: dict[str, str]
    """Of the routers, by name."""
    left_out: dict[str, str] = Field(default_factory=dict)
    """Routers that could have been measured as well, and what they would need."""
    cpus: int
    load_before: float
    """Average number of processes that wanted a CPU in the last minute. This benchmark alone makes
    it two or three."""
    load_after: float
    rounds: int
    slice_s: float
    passing: list[PassingLoad]
    turns: list[TurnFigures]


async def measure_router(
    targets: Sequence[Target],
    left_out: Mapping[str, str],
    rounds: int,
    slice_s: float,
    folder: Path,
    origin: Origin,
    passed: Progress,
    turned: Progress,
) -> RouterReport:
    """Raises Unavailable when a part does not start, or does not answer."""
    before = os.getloadavg()[0]
    passing = await measure_passing(targets, rounds, slice_s, folder, passed)
    turns = await measure_turns(rounds, folder, turned)
    return RouterReport(
        origin=origin,
        versions={target.name: target.version for target in targets},
        left_out=dict(left_out),
        cpus=os.cpu_count() or 1,
        load_before=before,
        load_after=os.getloadavg()[0],
        rounds=rounds,
        slice_s=slice_s,
        passing=passing,
        turns=turns,
    )
