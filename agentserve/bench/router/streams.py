"""Probes of a worker that is killed while it answers."""

from __future__ import annotations

import asyncio
import io
import json
import time

import httpx
from PIL import Image

from agentserve.bench.router.probed import Script
from agentserve.bench.router.rig import CHAT, ProbeRig, chat
from agentserve.bench.router.targets import KEY_HEADER
from agentserve.client import RouterClient
from agentserve.core.errors import Unavailable
from agentserve.core.model import Wire
from agentserve.core.screens import Size
from agentserve.core.sessions import SessionCreate

PACE_S = 0.2
_DONE = "[DONE]"
_VIEWPORT = Size(width=160, height=210)


class Broken(Wire):
    """A worker is killed behind the first event of a stream."""

    events: int
    """Whole ones with a part of the answer."""
    error: str | None
    """The code that an event of the stream tells, or its type or message where it has none. None:
    no event tells of an error."""
    done: bool
    """Whether the stream says that it is complete, which it is not."""
    broke_off: bool
    """Whether the connection ends in the middle of the body."""
    next_ms: float | None
    """Time of the session's next request. None: it was an error."""
    repeated: bool
    """Whether the same request is answered to its end when it is sent again."""


class TurnLost(Wire):
    """The worker of a session is killed during a turn (REST)."""

    answered: bool
    attempts: int
    replayed: bool
    """Whether the same turn, asked again, is given the stored answer."""
    next_ok: bool


async def probe_stream(rig: ProbeRig) -> Broken:
    headers = {KEY_HEADER: "streaming"}
    body = chat("What next?", stream=True)
    worker = await rig.ask("streaming")
    if worker is None:
        raise Unavailable(f"{rig.router.target.name} does not answer")
    await rig.script(Script(pace_s=PACE_S))
    lines: list[str] = []
    broke_off = False
    url = rig.router.server.url + CHAT
    try:
        async with rig.http.stream("POST", url, json=body, headers=headers) as answer:
            async for line in answer.aiter_lines():
                if line.startswith("data:"):
                    lines.append(line.removeprefix("data:").strip())
                    if len(lines) == 1:
                        await rig.workers[worker].kill()
    except httpx.TransportError:
        broke_off = True
    errors = [error for line in lines if (error := error_in(line)) is not None]
    await rig.script(Script())
    asked = time.perf_counter()
    following = await rig.ask("streaming")
    next_ms = (time.perf_counter() - asked) * 1000
    again = await rig.post(body, headers)
    return Broken(
        events=len(lines) - len(errors) - lines.count(_DONE),
        error=errors[0] if errors else None,
        done=_DONE in lines,
        broke_off=broke_off,
        next_ms=None if following is None else round(next_ms, 1),
        repeated=again.status_code == 200 and _DONE in again.text,
    )


def error_in(event: str) -> str | None:
    """What an event of a stream says of an error. None when it says of none."""
    if event == _DONE:
        return None
    error = json.loads(event).get("error")
    if not isinstance(error, dict):
        return None if error is None else str(error)
    return str(error.get("code") or error.get("type") or error.get("message"))


async def probe_turn(rig: ProbeRig) -> TurnLost:
    """Only for a router with sessions."""
    out = io.BytesIO()
    Image.new("RGB", (_VIEWPORT.width, _VIEWPORT.height), "white").save(out, "PNG")
    screen = out.getvalue()
    async with RouterClient(rig.router.server.url) as client:
        await rig.router.until_programs(client)
        create = SessionCreate(program="scripted", task="press ok", viewport=_VIEWPORT)
        session = await client.create_session(create)
        pin = session.pin
        assert pin is not None
        listed = {worker.id: worker.url for worker in (await client.workers()).workers}
        victim = next(one for one in rig.workers.values() if one.url == listed[pin.worker_id])
        await rig.script(Script(delay_s=2 * PACE_S))
        asking = asyncio.create_task(client.turn(session.id, screen, epoch=0))
        await asyncio.sleep(PACE_S)
        await victim.kill()
        result = await asking
        await rig.script(Script())
        again = await client.turn(session.id, screen, epoch=0)
        following = await client.turn(session.id, screen, epoch=1)
    same = again.action == result.action
    return TurnLost(
        answered=True,
        attempts=result.attempts,
        replayed=again.replayed and same,
        next_ok=following.epoch == 1,
    )
