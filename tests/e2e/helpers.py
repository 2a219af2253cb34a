"""Helpers of the end-to-end tests."""

from __future__ import annotations

import asyncio
import io
import itertools
import os
import sys

import numpy as np
import psutil
from PIL import Image

from agentserve.cli.stack import Stack
from agentserve.client import RouterClient
from agentserve.core.screens import Size
from agentserve.core.sessions import Session, SessionCreate

_seeds = itertools.count(1)


def screen(size: Size) -> bytes:
    """A PNG that no earlier test has sent: blocks of random colour."""
    random = np.random.default_rng((0xE2E, next(_seeds)))
    blocks = random.integers(0, 256, (size.height // 14, size.width // 14, 3), dtype=np.uint8)
    image = Image.fromarray(blocks).resize((size.width, size.height), Image.Resampling.NEAREST)
    buffer = io.BytesIO()
    image.save(buffer, "PNG")
    return buffer.getvalue()


def navigator(task: str = "Press the button.", **fields: object) -> SessionCreate:
    return SessionCreate(
        program="navigator", task=task, viewport=Size(width=224, height=280), **fields
    )


async def on_both(router: RouterClient, each: int) -> list[Session]:
    """So many new sessions on each of two workers. A router fills the emptier one first, and what
    other tests have left is not the same on both."""
    found: dict[str, list[Session]] = {}
    while len(found) < 2 or min(map(len, found.values())) < each:
        session = await router.create_session(navigator("Press the button."))
        found.setdefault(session.pin.worker_id, []).append(session)
        assert len(found) + max(map(len, found.values())) < 200, "one worker gets all sessions"
    for surplus in [session for of in found.values() for session in of[each:]]:
        await router.release(surplus.id)
    return [session for of in found.values() for session in of[:each]]


def kill_worker(pid: int) -> None:
    """kill -9 of a worker's main process; what it had started must follow by itself."""
    parent = psutil.Process(pid)
    family = [parent, *parent.children(recursive=True)]
    assert len(family) >= 3, "a worker is a server, a scheduler and a detokenizer"
    parent.kill()
    _, alive = psutil.wait_procs(family, timeout=30)
    assert alive == []


AGENTSERVE = [sys.executable, "-m", "agentserve.cli"]


async def command(stack: Stack, *arguments: str) -> tuple[int, str, str]:
    """Run ``agentserve ARGUMENTS…`` against the stack: exit code, stdout, stderr."""
    process = await start(stack, *arguments)
    stdout, stderr = await asyncio.wait_for(process.communicate(), 240)
    return process.returncode, stdout.decode(), stderr.decode()


async def start(stack: Stack, *arguments: str) -> asyncio.subprocess.Process:
    return await asyncio.create_subprocess_exec(
        *AGENTSERVE,
        *arguments,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env=os.environ | {"AGENTSERVE_ROUTER": stack.router},
    )
