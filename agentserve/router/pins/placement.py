"""Where a new or moved session goes. Pure: what is known of the workers in, one of them out.

Everything is counted in tokens that somebody would have to prefill:

    of its own     what the worker does not hold of the session's prompt already
    of others      what must leave the worker's KV cache to make room, and is asked for again
    before it      what the turns that run there have still to do

The least sum wins; then the worker with the largest free share of its KV pool, then the one of
fewer sessions, then rendezvous hashing, so that equal choices spread and repeat.

What a worker holds of a surface's shared prefix would draw all sessions of a popular surface to one
worker until it queues. So it counts only while the worker is within a bound of the mean, as in
consistent hashing with bounded loads (Mirrokni, Thorup and Zadimoghaddam, SODA 2018).
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable
from dataclasses import dataclass

TURN_TOKENS = 500
"""What a running turn has still to prefill, about: a mosaic turn sends 300 to 1,050 tokens."""
SYSTEM_TOKENS = 300
"""Of a program's own text, about."""
CHARACTERS_PER_TOKEN = 4
BALANCE = 1.25
"""A worker is drawn to for its prefixes while it has at most so many times the mean of sessions."""


@dataclass(frozen=True)
class Load:
    """What is known of a worker that could take the session."""

    worker_id: str
    capacity: int
    """Slots of its KV pool, in tokens."""
    held: int = 0
    """Tokens that its sessions are expected to have there, visual ones included."""
    sessions: int = 0
    running: int = 0
    """Turns."""
    shared: int = 0
    """First tokens of the session's prompt that it holds already: its surface's shared prefix."""


@dataclass(frozen=True)
class Arrival:
    """A session that is to be placed."""

    session_id: str
    prompt: int
    """Tokens of its prompt, which the worker will have to hold."""


def place(arrival: Arrival, loads: Iterable[Load]) -> str | None:
    """The worker's id; None when there is none."""
    loads = list(loads)
    if not loads:
        return None
    fair = math.ceil(BALANCE * (sum(load.sessions for load in loads) + 1) / len(loads))

    def key(load: Load) -> tuple[int, float, int, bytes]:
        held = min(load.shared, arrival.prompt) if load.sessions < fair else 0
        own = arrival.prompt - held
        crowded_out = max(0, min(load.held, load.held + own - load.capacity))
        cost = own + crowded_out + load.running * TURN_TOKENS
        used = load.held / max(load.capacity, 1)
        return cost, used, load.sessions, rendezvous(arrival.session_id, load.worker_id)

    return min(loads, key=key).worker_id


def rendezvous(name: str, worker_id: str) -> bytes:
    """The weight of a worker for a name; the least wins (Thaler and Ravishankar, 1998)."""
    return hashlib.sha256(f"{name}\n{worker_id}".encode()).digest()


def first_prompt(visual_tokens: int, text: str) -> int:
    """Tokens of a session's first prompt, about: placing needs no more."""
    return visual_tokens + SYSTEM_TOKENS + len(text) // CHARACTERS_PER_TOKEN
