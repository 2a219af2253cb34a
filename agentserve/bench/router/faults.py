"""Probes of what goes wrong around a router: refused requests, a worker's death, its own."""

from __future__ import annotations

import asyncio
from collections import Counter

from agentserve.bench.router.probed import Script
from agentserve.bench.router.rig import ProbeRig, chat
from agentserve.bench.router.targets import KEY_HEADER
from agentserve.core.errors import Unavailable
from agentserve.core.model import Wire

BAD, GOOD = 40, 6
SESSIONS = 8
NAMES = 60
SETTLE_S = 3.0
"""From when a worker is back until its sessions are asked again: all of the routers that were
measured know of it by then."""
_MOST_NAMES = 200


class Refusals(Wire):
    """A worker refuses ``bad`` requests by 400; then ``good`` good ones are sent."""

    bad: int
    statuses: dict[str, int]
    """What the clients of the bad ones were answered."""
    good: int
    answered: int
    """Of the good ones."""


class Bounced(Wire):
    """The worker of ``sessions`` sessions is killed, they go on elsewhere, it comes back cold."""

    sessions: int
    went_on: int
    """Answered while it was away."""
    back: int
    """Answered by it again: all that they have cached elsewhere is computed anew."""


class Restarted(Wire):
    """The router is killed and started again."""

    names: int
    kept: int
    """Still on the worker that has their cache. Chance gives one of as many as there are workers.
    """


async def probe_refusals(rig: ProbeRig) -> Refusals:
    await rig.script(Script(faults=["refuse"] * BAD))
    statuses = Counter(
        [(await rig.post(chat("no"), {KEY_HEADER: f"bad-{n}"})).status_code for n in range(BAD)]
    )
    await rig.script(Script())
    good = [await rig.ask(f"good-{number}") for number in range(GOOD)]
    return Refusals(
        bad=BAD,
        statuses={str(status): count for status, count in sorted(statuses.items())},
        good=GOOD,
        answered=sum(worker is not None for worker in good),
    )


async def probe_bounce(rig: ProbeRig) -> Bounced:
    by_worker: dict[str, list[str]] = {}
    for number in range(_MOST_NAMES):
        key = f"session-{number}"
        worker = await rig.ask(key)
        if worker is not None:
            by_worker.setdefault(worker, []).append(key)
            if len(by_worker[worker]) == SESSIONS:
                break
    else:
        raise Unavailable(f"no worker was given {SESSIONS} of {_MOST_NAMES} sessions")
    victim, keys = rig.workers[worker], by_worker[worker]
    await victim.kill()
    elsewhere = [await rig.ask(key) for key in keys]
    await rig.restart(victim)
    await rig.router.until_ready(rig.http)
    await asyncio.sleep(SETTLE_S)
    after = [await rig.ask(key) for key in keys]
    return Bounced(
        sessions=len(keys),
        went_on=sum(one is not None for one in elsewhere),
        back=sum(one == worker for one in after),
    )


async def probe_restart(rig: ProbeRig) -> Restarted:
    keys = [f"name-{number}" for number in range(NAMES)]
    before = [await rig.ask(key) for key in keys]
    await rig.router.server.kill()
    await rig.router.server.start()
    await rig.router.until_ready(rig.http)
    after = [await rig.ask(key) for key in keys]
    kept = sum(a is not None and a == b for a, b in zip(before, after, strict=True))
    return Restarted(names=NAMES, kept=kept)
