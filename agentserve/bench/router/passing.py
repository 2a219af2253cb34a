"""The pass-through beside other routers: what each adds to a request, and how many it passes.

    client ──► router ──► sink          one process each; ``direct`` leaves the router out,
                                        ``x 2`` has two routers behind one port, and a Redis

All targets take turns in each round, so that all meet the same machine.
"""

from __future__ import annotations

import asyncio
import base64
import json
import secrets
import statistics
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path

import httpx

from agentserve.bench.router.figures import median_difference, median_ratio, percentile
from agentserve.bench.router.load import load, post
from agentserve.bench.router.processes import Group, Server, free_port, module
from agentserve.bench.router.sink import MODEL
from agentserve.bench.router.targets import (
    KEY_HEADER,
    Running,
    RunningTogether,
    Target,
    launch,
    launch_together,
)
from agentserve.core.model import Wire

SCREENSHOT_BYTES = 530_000
"""Of a screenshot in a request: what it takes in base64."""
SCREENSHOTS = (0, 1, 5)
CONCURRENCIES = (1, 16)
DIRECT = "direct"
_CHAT = "/v1/chat/completions"

Progress = Callable[[], None]
"""Is called after each slice: one target in one round."""


class PassingFigures(Wire):
    """One target under one load. Times are in ms, medians over the rounds."""

    target: str
    p50: float
    p99: float
    added_p50: float
    """More than ``direct`` in the same round."""
    added_p99: float
    per_s: float
    per_s_ratio: float
    """Of the requests per second of ``direct`` in the same round."""
    cpu: float | None
    """CPU time of the router's process for a request; of several, that of all with their Redis."""
    requests: int


class PassingLoad(Wire):
    screenshots: int
    body_bytes: int
    concurrency: int
    figures: list[PassingFigures]


@dataclass
class _Slices:
    """A target's rounds under one load."""

    p50: list[float] = field(default_factory=list)
    p99: list[float] = field(default_factory=list)
    per_s: list[float] = field(default_factory=list)
    cpu: list[float] = field(default_factory=list)
    requests: int = 0


def chat_body(screenshots: int) -> bytes:
    """A chat with pictures of noise: nobody looks at them on the way."""
    content: list[dict[str, object]] = [{"type": "text", "text": "What next?"}]
    for _ in range(screenshots):
        noise = base64.b64encode(secrets.token_bytes(SCREENSHOT_BYTES * 3 // 4)).decode()
        url = {"url": f"data:image/png;base64,{noise}"}
        content.append({"type": "image_url", "image_url": url})
    messages = [{"role": "user", "content": content}]
    return json.dumps({"model": MODEL, "messages": messages, "max_tokens": 16}).encode()


async def measure_passing(
    targets: Sequence[Target], rounds: int, slice_s: float, folder: Path, progress: Progress
) -> list[PassingLoad]:
    """Raises Unavailable when one of them does not start, or does not answer."""
    async with AsyncExitStack() as stack:
        http = await stack.enter_async_context(httpx.AsyncClient(trust_env=False))
        port = free_port()
        command = module("agentserve.bench.router.sink", str(port))
        sink = await stack.enter_async_context(Server(command, port, folder / "sink.log"))
        await sink.until(lambda: _listens(http, sink.url))
        running: dict[str, Running | RunningTogether] = {}
        for number, target in enumerate(targets):
            start = launch if target.routers == 1 else launch_together
            one = start(target, [sink.url], folder / f"target-{number}", plain_workers=True)
            await stack.enter_async_context(one.server)
            running[target.name] = one
        for one in running.values():
            await one.until_ready(http)
        servers: dict[str, Server | Group] = {DIRECT: sink} | {
            name: one.server for name, one in running.items()
        }
        return [
            await _under_load(servers, screenshots, concurrency, rounds, slice_s, progress)
            for screenshots in SCREENSHOTS
            for concurrency in CONCURRENCIES
        ]


async def _listens(http: httpx.AsyncClient, url: str) -> bool:
    try:
        return (await http.get(f"{url}/health")).status_code == 200
    except httpx.TransportError:
        return False


async def _under_load(
    servers: dict[str, Server | Group],
    screenshots: int,
    concurrency: int,
    rounds: int,
    slice_s: float,
    progress: Progress,
) -> PassingLoad:
    body = chat_body(screenshots)
    slices = {name: _Slices() for name in servers}
    for number in range(rounds + 1):
        for name, server in servers.items():
            asked = [
                post(server.url, _CHAT, {KEY_HEADER: f"session-{index}"}, body)
                for index in range(concurrency)
            ]
            before = server.cpu_s()
            # the first round only makes all of them warm
            times, took = await load(server.url, asked, slice_s if number else slice_s / 2)
            after = server.cpu_s()
            if number:
                _note(slices[name], times, took)
                if before is not None and after is not None:
                    slices[name].cpu.append((after - before) * 1000 / len(times))
            progress()
            await asyncio.sleep(0.02)  # what the last one left undone is not the next one's
    direct = slices[DIRECT]
    return PassingLoad(
        screenshots=screenshots,
        body_bytes=len(body),
        concurrency=concurrency,
        figures=[_figures(name, one, direct) for name, one in slices.items()],
    )


def _note(slices: _Slices, times: list[float], took: float) -> None:
    slices.p50.append(percentile(times, 0.5))
    slices.p99.append(percentile(times, 0.99))
    slices.per_s.append(len(times) / took)
    slices.requests += len(times)


def _figures(name: str, slices: _Slices, direct: _Slices) -> PassingFigures:
    return PassingFigures(
        target=name,
        p50=statistics.median(slices.p50),
        p99=statistics.median(slices.p99),
        added_p50=median_difference(slices.p50, direct.p50),
        added_p99=median_difference(slices.p99, direct.p99),
        per_s=statistics.median(slices.per_s),
        per_s_ratio=median_ratio(slices.per_s, direct.per_s),
        cpu=statistics.median(slices.cpu) if slices.cpu and name != DIRECT else None,
        requests=slices.requests,
    )
