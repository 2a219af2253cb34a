"""Probes of what a router does with a request: what it changes, and by what it routes."""

from __future__ import annotations

import asyncio
import base64
import json
import secrets

from agentserve.bench.router.bodies import Kept, compare
from agentserve.bench.router.probed import Script
from agentserve.bench.router.rig import CHAT, ProbeRig, chat, worker_in
from agentserve.bench.router.targets import KEY_HEADER
from agentserve.core.errors import Unavailable
from agentserve.core.model import Wire

TRIALS = 12
HELD_S = 0.3
WORDS = 120
_PICTURE_BYTES = 2000

FIELDS = {
    "max_tokens": 16,
    "cache_salt": "tenant-1",
    "extra_key": "lora-1",
    "session_id": "s-1",
    "priority": 3,
    "rid": "request-1",
    "user": "someone",
    "mm_hashes": ["0123456789abcdef"],
    "return_cached_tokens_details": True,
    "nobody_knows_this": {"a": [1, 2.50, None]},
}
HEADERS = {
    "x-session-id": "agent-1",
    "traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
    "authorization": "Bearer secret",
    "x-request-id": "request-1",
    "x-nobody-knows": "this",
    KEY_HEADER.lower(): "key-1",
}


class Pictures(Wire):
    """``trials`` times: while a conversation's worker has work, another one begins with the same
    text and another screenshot, and one with another text and the same screenshot."""

    policy: str
    trials: int
    same_text: int
    """How often the second went to the worker of the first, as if its prompt were cached there:
    it is not, since a screenshot's tokens are its own."""
    other_text: int
    """How often the third did: what the load alone makes of it."""


async def probe_bodies(rig: ProbeRig) -> Kept:
    body = json.dumps(chat("What next?", secrets.token_bytes(64), **FIELDS), indent=1).encode()
    headers = HEADERS | {"content-type": "application/json"}
    answer = await rig.http.post(rig.router.server.url + CHAT, content=body, headers=headers)
    if answer.status_code != 200:
        raise Unavailable(f"{rig.router.target.name} answered {answer.status_code}")
    (seen,) = await rig.seen()
    return compare(body, HEADERS, base64.b64decode(seen.body), dict(seen.headers))


async def probe_pictures(rig: ProbeRig) -> Pictures:
    await rig.script(Script(delay_s=HELD_S))
    same = other = 0
    for trial in range(TRIALS):
        text, another = _text(), _text()
        picture, changed = (secrets.token_bytes(_PICTURE_BYTES) for _ in range(2))
        first = await _worker_of(rig, f"{trial}-first", text, picture)
        holding = asyncio.create_task(_worker_of(rig, f"{trial}-first", text, picture))
        await asyncio.sleep(HELD_S / 3)
        second, third = await asyncio.gather(
            _worker_of(rig, f"{trial}-second", text, changed),
            _worker_of(rig, f"{trial}-third", another, picture),
        )
        await holding
        same += first == second
        other += first == third
    return Pictures(
        policy=rig.router.target.policy or "by session",
        trials=TRIALS,
        same_text=same,
        other_text=other,
    )


async def _worker_of(rig: ProbeRig, session: str, text: str, picture: bytes) -> str:
    """Each conversation is a session of its own; routers that go by the text are told of none."""
    by_session = rig.router.target.policy is None
    headers = {KEY_HEADER: session} if by_session else {}
    answer = await rig.post(chat(text, picture), headers)
    if answer.status_code != 200:
        raise Unavailable(f"{rig.router.target.name} answered {answer.status_code}")
    return worker_in(answer)


def _text() -> str:
    return " ".join(secrets.token_hex(3) for _ in range(WORDS))
