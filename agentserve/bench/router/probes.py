"""``agentserve bench probes``: how routers take what goes wrong, one after the other, alike.

Every probe has a router of its own, over the same workers; what it does is written at what it
finds.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar

from agentserve.bench.origin import Origin
from agentserve.bench.router.bodies import Kept
from agentserve.bench.router.faults import (
    Bounced,
    Refusals,
    Restarted,
    probe_bounce,
    probe_refusals,
    probe_restart,
)
from agentserve.bench.router.processes import Server
from agentserve.bench.router.requests import Pictures, probe_bodies, probe_pictures
from agentserve.bench.router.rig import WORKERS, ProbeRig, probe_rig, scripted_workers
from agentserve.bench.router.streams import Broken, TurnLost, probe_stream, probe_turn
from agentserve.bench.router.targets import Target
from agentserve.core.model import Wire

T = TypeVar("T")
Progress = Callable[[], None]
"""Is called after each probe."""
SOON_TRIED = ("--cb-timeout-duration-secs", "2")
"""Other routers try a worker that came back after 2 s, and not after 60."""
PROBES = 6
"""Of every router; ours has a further one."""


class ProbeFigures(Wire):
    """How one router took all probes."""

    target: str
    version: str
    policy: str | None
    """By which another router keeps a session on its worker. None: ours has one only."""
    refusals: Refusals
    bounced: Bounced
    restarted: Restarted
    broken: Broken
    turn: TurnLost | None
    """None: the router has no turns."""
    kept: Kept
    pictures: Pictures


class ProbesReport(Wire):
    """What ``--json`` prints."""

    origin: Origin
    workers: int
    routers: list[ProbeFigures]


async def measure_probes(
    targets: Sequence[Target], folder: Path, origin: Origin, progress: Progress
) -> ProbesReport:
    """Raises Unavailable when a router or a worker does not start."""
    async with scripted_workers(folder) as workers:
        routers = [
            await _probe_all(_Probing(target, workers, folder / f"{number}", progress))
            for number, target in enumerate(targets)
        ]
    return ProbesReport(origin=origin, workers=WORKERS, routers=routers)


@dataclass(frozen=True)
class _Probing:
    """One router under all probes, each time started anew."""

    target: Target
    workers: dict[str, Server]
    folder: Path
    progress: Progress

    async def run(self, probe: Callable[[ProbeRig], Awaitable[T]], *options: str) -> T:
        folder = self.folder / probe.__name__
        async with probe_rig(self.target, self.workers, folder, options) as rig:
            seen = await probe(rig)
        self.progress()
        return seen


async def _probe_all(probing: _Probing) -> ProbeFigures:
    target = probing.target
    by_content = replace(probing, target=target.by_content())
    return ProbeFigures(
        target=target.name,
        version=target.version,
        policy=target.policy,
        refusals=await probing.run(probe_refusals),
        bounced=await probing.run(probe_bounce, *SOON_TRIED),
        restarted=await probing.run(probe_restart),
        broken=await probing.run(probe_stream),
        turn=await probing.run(probe_turn) if target.executable is None else None,
        kept=await probing.run(probe_bodies),
        pictures=await by_content.run(probe_pictures),
    )
