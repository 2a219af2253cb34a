"""The processes of docker-compose.yml by hand: its own command lines, with this machine's paths."""

from __future__ import annotations

import asyncio
import os
import re
import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import pytest
import yaml
from e2e.helpers import navigator, screen
from router.redis_server import RedisServer
from router.rig import eventually

from agentserve.cli.stack import Stack
from agentserve.client import RouterClient

COMPOSE = yaml.safe_load((Path(__file__).parents[2] / "docker-compose.yml").read_text())


def command_of(service: str, here: dict[str, str]) -> list[str]:
    """Its command; ``here`` has the values of options that name the containers' own places."""
    command, *options = COMPOSE["services"][service]["command"]
    defaults = [re.sub(r"\$\{\w+:-([^}]*)\}", r"\1", option) for option in options]
    given = dict(option.removeprefix("--").split("=") for option in defaults)
    assert here.keys() <= given.keys()
    return [command, *(f"--{name}={value}" for name, value in (given | here).items())]


@asynccontextmanager
async def running(arguments: list[str]) -> AsyncIterator[tuple[asyncio.subprocess.Process, str]]:
    """A router's process, and its URL once it listens."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "agentserve.cli", *arguments),
        stdout=asyncio.subprocess.PIPE,
        env={name: value for name, value in os.environ.items() if "AGENTSERVE" not in name},
    )
    try:
        line = (await asyncio.wait_for(process.stdout.readline(), 120)).decode()
        assert "listening on" in line
        yield process, line.split()[-1]
    finally:
        if process.returncode is None:
            process.terminate()
        await process.wait()


@pytest.mark.timeout(600)
async def test_two_routers_on_one_redis_with_real_workers(stack: Stack, tmp_path: Path) -> None:
    redis_options = COMPOSE["services"]["redis"]["command"][1:]
    (tmp_path / "workers").write_text("\n".join(stack.workers))
    with RedisServer(*redis_options) as redis:
        async with AsyncExitStack() as routers:
            started = []
            for name in ("router-1", "router-2"):
                here = {
                    "host": "127.0.0.1",
                    "port": "0",
                    "store": redis.url,
                    "blobs": str(tmp_path / "blobs"),
                    "data": str(tmp_path / name),
                    "workers-file": str(tmp_path / "workers"),
                }
                started.append(await routers.enter_async_context(running(command_of(name, here))))
            clients = [await routers.enter_async_context(RouterClient(url)) for _, url in started]
            for client in clients:
                await eventually(client.ready, lambda health: health.status == "ok", 120)
            session = await clients[0].create_session(navigator())
            first = await clients[1].turn(session.id, screen(session.space.model), epoch=0)
            second = await clients[0].turn(session.id, screen(session.space.model), epoch=1)
            assert first.worker == second.worker
            assert second.usage.cached_tokens >= second.usage.stored_prefix_tokens > 0

            started[0][0].kill()
            await started[0][0].wait()
            third = await clients[1].turn(session.id, screen(session.space.model), epoch=2)
            assert third.worker == first.worker
            assert third.usage.cached_tokens >= third.usage.stored_prefix_tokens > 0
            assert (await clients[1].turn(session.id, screen(session.space.model))).epoch == 3
        assert all(process.returncode is not None for process, _ in started)
