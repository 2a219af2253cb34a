"""Turns of sessions: what the router itself does for one, beside the program host and the worker.

    own = what the client waits - what the scripted program host took, its worker included

What the router does while the program runs, the client does not wait for, and ``own`` is without
it: the pictures are stored then, which takes less than the few tens of ms that the scripted program
does. What would take longer is waited for, and counts. ``total`` is all that the client waits.

Sessions of each policy, with their screenshots sent in each way, take turns, so that all meet the
same machine. Client and screenshots are prepared: their making is not counted.
"""

from __future__ import annotations

import base64
import io
import json
import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, get_args

import httpx
import numpy as np
from PIL import Image

from agentserve.bench.router.figures import percentile
from agentserve.bench.router.load import Connection, post
from agentserve.bench.router.passing import SCREENSHOT_BYTES
from agentserve.bench.router.probed import ProbedWorker
from agentserve.bench.router.processes import Server, free_port, module
from agentserve.bench.router.targets import OURS, launch
from agentserve.client import RouterClient
from agentserve.core.errors import Unavailable
from agentserve.core.model import Wire
from agentserve.core.screens import Size
from agentserve.core.sessions import SessionCreate, TurnResult

Way = Literal["multipart", "base64", "blob"]
POLICIES = ("mosaic", "full")
SCREEN = Size(width=1120, height=672)
CELL = 112
CHANGED_CELLS = 7
"""Of the 60 of a screen, from turn to turn: form work."""
TURNS = 8

Progress = Callable[[], None]
"""Is called after each turn."""


class TurnFigures(Wire):
    """Sessions of one policy whose screenshots come in one way. Times are in ms, medians."""

    policy: str
    way: Way
    turns: int
    total: float
    own: float
    own_p99: float
    own_first: float
    """Of the sessions' first turns alone: the whole screen is sent."""
    plan: float
    """Of it: decoding the screenshot, comparing screens, planning the prompt."""
    queue: float
    """Of it: telling the store that the turn begins, beside the planning."""
    upload: float | None
    """Of the blob, before the turn and not part of it."""


@dataclass
class _Turns:
    total: list[float] = field(default_factory=list)
    own: list[float] = field(default_factory=list)
    first: list[float] = field(default_factory=list)
    plan: list[float] = field(default_factory=list)
    queue: list[float] = field(default_factory=list)
    upload: list[float] = field(default_factory=list)


@dataclass
class _Session:
    id: str
    way: Way
    screens: Iterator[bytes]
    turns: _Turns


def screens(seed: str) -> Iterator[bytes]:
    """A page of a screenshot's usual size in bytes, of which some cells change each time."""
    chance = np.random.default_rng(list(seed.encode()))
    page = np.full((SCREEN.height, SCREEN.width, 3), 245, np.uint8)
    noisy = round(SCREENSHOT_BYTES * 3 / 4 / (SCREEN.width * 3))
    page[:noisy] = chance.integers(0, 256, (noisy, SCREEN.width, 3), np.uint8)
    cells = [(y, x) for y in range(0, SCREEN.height, CELL) for x in range(0, SCREEN.width, CELL)]
    while True:
        for index in chance.choice(len(cells), CHANGED_CELLS, replace=False):
            y, x = cells[index]
            page[y + 20 : y + 60, x + 8 : x + 100] = chance.integers(0, 256, 3, np.uint8)
        out = io.BytesIO()
        Image.fromarray(page).save(out, "PNG")
        yield out.getvalue()


async def measure_turns(rounds: int, folder: Path, progress: Progress) -> list[TurnFigures]:
    """``rounds`` sessions of each kind. Raises Unavailable when a part does not start."""
    async with AsyncExitStack() as stack:
        http = await stack.enter_async_context(httpx.AsyncClient(trust_env=False))
        port = free_port()
        command = module(ProbedWorker.__module__, str(port))
        worker = await stack.enter_async_context(Server(command, port, folder / "worker.log"))
        router = launch(OURS, [worker.url], folder / "turns")
        await stack.enter_async_context(router.server)
        await router.until_ready(http)
        client = await stack.enter_async_context(RouterClient(router.server.url))
        await router.until_programs(client)
        kinds = {(policy, way): _Turns() for policy in POLICIES for way in get_args(Way)}
        await _play(client, {kind: _Turns() for kind in kinds}, "warm-up", 2, lambda: None)
        for number in range(rounds):
            await _play(client, kinds, f"round {number}", TURNS, progress)
    return [_figures(policy, way, turns) for (policy, way), turns in kinds.items()]


async def _play(
    client: RouterClient,
    kinds: dict[tuple[str, Way], _Turns],
    seed: str,
    turns: int,
    progress: Progress,
) -> None:
    """A session of each kind, side by side."""
    sessions = []
    for (policy, way), seen in kinds.items():
        create = SessionCreate.model_validate(
            {
                "program": "scripted",
                "task": "press ok",
                "viewport": SCREEN.model_dump(),
                "policy": policy,
            }
        )
        session = await client.create_session(create)
        drawn = screens(f"{seed} {policy} {way}")
        shots = iter([next(drawn) for _ in range(turns)])
        sessions.append(_Session(session.id, way, shots, seen))
    for epoch in range(turns):
        for session in sessions:
            await _turn(client, session, epoch)
            progress()


async def _turn(client: RouterClient, session: _Session, epoch: int) -> None:
    shot = next(session.screens)
    blob = None
    if session.way == "blob":
        begun = time.perf_counter()
        blob = await client.put_blob(shot)
        session.turns.upload.append((time.perf_counter() - begun) * 1000)
    request = _request(client.url, session, shot, blob, epoch)
    connection = await Connection.to(client.url)
    begun = time.perf_counter()
    response = await connection.ask(request)
    total = (time.perf_counter() - begun) * 1000
    connection.close()
    head, _, body = response.partition(b"\r\n\r\n")
    if not head.startswith(b"HTTP/1.1 200"):
        raise Unavailable(f"a turn was answered {response[:300]!r}")
    timings = TurnResult.model_validate_json(body).timings
    own = total - timings.program_ms
    session.turns.total.append(total)
    session.turns.own.append(own)
    session.turns.plan.append(timings.plan_ms)
    session.turns.queue.append(timings.queue_ms)
    if not epoch:
        session.turns.first.append(own)


def _request(url: str, session: _Session, shot: bytes, blob: str | None, epoch: int) -> bytes:
    path = f"/v1/sessions/{session.id}/turns"
    if session.way == "multipart":
        form = httpx.Request(
            "POST", url, data={"epoch": str(epoch)}, files={"screenshot": ("s.png", shot)}
        )
        return post(url, path, {}, form.read(), form.headers["content-type"])
    sent = {"base64": base64.b64encode(shot).decode()} if blob is None else {"blob": blob}
    return post(url, path, {}, json.dumps({"epoch": epoch, "screenshot": sent}).encode())


def _figures(policy: str, way: Way, turns: _Turns) -> TurnFigures:
    return TurnFigures(
        policy=policy,
        way=way,
        turns=len(turns.own),
        total=statistics.median(turns.total),
        own=statistics.median(turns.own),
        own_p99=percentile(turns.own, 0.99),
        own_first=statistics.median(turns.first),
        plan=statistics.median(turns.plan),
        queue=statistics.median(turns.queue),
        upload=statistics.median(turns.upload) if turns.upload else None,
    )
