"""The routers that are compared: how each is started, and when it is ready."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

import httpx

from agentserve import __version__
from agentserve.bench.router.processes import Group, Server, free_port, listens, module
from agentserve.client import RouterClient
from agentserve.core.errors import InvalidRequest
from agentserve.router.shared_port import can_share

Kind = Literal["agentserve", "sglang-router", "smg"]
Policy = Literal["manual", "consistent_hashing", "cache_aware"]
PINNED: dict[Kind, str] = {"sglang-router": "0.3.2", "smg": "1.13.0"}
"""The releases of other routers that are known to be started right here."""
REDIS = "redis-server"
KEY_HEADER = "X-SMG-Routing-Key"
"""By which all of them keep a session on its worker."""


@dataclass(frozen=True)
class Target:
    """A router, with the policy that it runs."""

    kind: Kind
    version: str
    executable: Path | None = None
    """None: ours."""
    policy: Policy | None = None
    routers: int = 1
    """Processes of ours behind one port, which share a Redis."""

    @property
    def name(self) -> str:
        if self.routers > 1:
            return f"{self.kind} x {self.routers}"
        return self.kind if self.policy is None else f"{self.kind} {self.policy}"

    def by_content(self) -> Target:
        """The same router with the policy that goes by what the request says; ours has none."""
        return self if self.policy is None else replace(self, policy="cache_aware")


@dataclass(frozen=True)
class Running:
    """A router that was started, and asks to be killed."""

    target: Target
    server: Server
    workers: int

    async def until_ready(self, http: httpx.AsyncClient) -> None:
        """Until it sends requests to all of its workers. Raises Unavailable."""

        async def ready() -> bool:
            try:
                return await _usable(self, http) == self.workers
            except httpx.TransportError:
                return False

        await self.server.until(ready)

    async def until_programs(self, client: RouterClient) -> None:
        """Until ours can run turns. Raises Unavailable."""

        async def ready() -> bool:
            return bool((await client.programs()).programs)

        await self.server.until(ready)


@dataclass(frozen=True)
class RunningTogether:
    """Routers of ours that answer on one port: ``server``. Each asks to be ready by itself."""

    server: Group
    routers: Sequence[Running]

    async def until_ready(self, http: httpx.AsyncClient) -> None:
        """Until all of them are, and one at least listens there. Raises Unavailable."""
        for one in self.routers:
            await one.until_ready(http)
        await self.routers[0].server.until(lambda: listens(self.server.port))


OURS = Target("agentserve", __version__)


def together(routers: int) -> Target:
    """So many of ours behind one port. Raises InvalidRequest where that cannot be."""
    if not can_share():
        raise InvalidRequest("this system has no ports that processes share")
    if shutil.which(REDIS) is None:
        raise InvalidRequest(f"there is no {REDIS} on PATH", hint=f"apt-get install {REDIS}")
    return replace(OURS, routers=routers)


def rival(kind: Kind, executable: Path, policy: Policy = "manual") -> Target:
    """Another router by the executable that its wheel installs. Raises InvalidRequest for another
    release than the one that is known."""
    found = shutil.which(executable)  # by its path, or by its name on PATH
    if found is None:
        raise InvalidRequest(f"there is no {executable}", hint=how_to_install(kind))
    executable = Path(found)
    code = f"import importlib.metadata as m; print(m.version({kind!r}))"
    asked = subprocess.run(
        [str(executable.absolute().parent / "python"), "-c", code],
        capture_output=True,
        text=True,
        timeout=30,
    )
    version = asked.stdout.strip()
    if version != PINNED[kind]:
        raise InvalidRequest(
            f"{executable} is {kind} {version or 'of an unknown version'}",
            hint=how_to_install(kind),
        )
    return Target(kind, version, executable, policy)


def how_to_install(kind: Kind) -> str:
    return (
        f"python3 -m venv FOLDER && FOLDER/bin/pip install {kind}=={PINNED[kind]}, "
        f"then --{kind} FOLDER/bin/{kind}"
    )


def launch(
    target: Target,
    workers: Sequence[str],
    folder: Path,
    *,
    plain_workers: bool = False,
    options: Sequence[str] = (),
    sharing: Sequence[str] = (),
) -> Running:
    """A router over ``workers``, on a free port, its data and log in ``folder``.

    Health is checked every second by all of them, so that a probe takes seconds; everything else
    is as each of them comes, but for another router's further ``options``, and what ours is told of
    those with which it is ``sharing``.
    """
    port = free_port()
    environment = {}
    if target.executable is None:
        command = module(
            "agentserve.bench.router.ours",
            *("--port", str(port), "--data", str(folder / "data")),
            *(word for url in workers for word in ("--worker", url)),
            *(["--plain-workers"] if plain_workers else []),
            *sharing,
        )
    else:
        assert target.policy is not None
        command = [
            *(str(target.executable), "launch", "--host", "127.0.0.1", "--port", str(port)),
            *("--policy", target.policy, "--worker-urls", *workers),
            *("--prometheus-host", "127.0.0.1", "--prometheus-port", str(free_port())),
            *("--log-level", "warn", "--worker-startup-check-interval", "1"),
            *("--health-check-interval-secs", "1", "--health-success-threshold", "1"),
            *("--health-failure-threshold", "1", *options),
        ]
        # they look for a tokenizer of the workers' model, which needs none here
        environment = {"HF_ENDPOINT": "http://127.0.0.1:9"}
    folder.mkdir(parents=True, exist_ok=True)
    server = Server(command, port, folder / "log", environment)
    return Running(target, server, len(workers))


def launch_together(
    target: Target, workers: Sequence[str], folder: Path, *, plain_workers: bool = False
) -> RunningTogether:
    """The routers of a target that has several, and a Redis that syncs what it acknowledges, as
    the database of a single one does."""
    folder.mkdir(parents=True, exist_ok=True)
    port, redis_port = free_port(), free_port()
    redis = Server(
        [
            *(REDIS, "--bind", "127.0.0.1", "--port", str(redis_port), "--dir", str(folder)),
            *("--save", "", "--appendonly", "yes", "--appendfsync", "always"),
        ],
        redis_port,
        folder / "redis.log",
    )
    sharing = (
        *("--store", f"redis://127.0.0.1:{redis_port}/0", "--blobs", str(folder / "blobs")),
        *("--shared-port", str(port)),
    )
    routers = [
        launch(
            OURS, workers, folder / f"router-{number}", plain_workers=plain_workers, sharing=sharing
        )
        for number in range(target.routers)
    ]
    return RunningTogether(Group(port, redis, [one.server for one in routers]), routers)


async def _usable(running: Running, http: httpx.AsyncClient) -> int:
    """How many workers the router sends requests to."""
    if running.target.kind == "agentserve":
        listed = await http.get(f"{running.server.url}/v1/workers")
        return sum(one["state"] == "ready" for one in listed.json()["workers"])
    listed = await http.get(f"{running.server.url}/workers")
    return sum(bool(one.get("is_healthy")) for one in listed.json().get("workers", []))
