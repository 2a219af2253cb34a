"""What a turn asks: of the router, and then of a program host. Pure."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agentserve.core.hosting import HostTurn
from agentserve.core.plans import Piece, Plan, VisualItem, num_tokens
from agentserve.core.pruning import Compression
from agentserve.core.sessions import Outcome
from agentserve.core.workers import Worker
from agentserve.router.store import SessionRecord
from agentserve.router.turns.budget import prompt_budget
from agentserve.vision.patches import ScreenPatch
from agentserve.vision.policies import parse_policy, plan_prompt
from agentserve.vision.screenshots import Screenshot


@dataclass(frozen=True)
class TurnAsk:
    """A turn as a client asks for it."""

    screenshot: bytes | ScreenPatch
    instruction: str | None = None
    epoch: int | None = None
    """None means the session's current one."""
    outcome: Outcome | None = None
    compression: Compression | None = None
    """None means the session's."""
    resend_thin: bool = False
    request_id: str = ""
    timeout_s: float | None = None
    """What the client gives it. None, and more than that, means the router's limit."""
    goes_on: bool = True
    """Whether a turn that runs goes on when its clients leave."""


def turn_key(epoch: int, screenshot: str, instruction: str | None) -> str:
    """Which request a turn answers: the same key is the same turn. ``screenshot`` tells it from
    others as it was sent (vision.patches)."""
    return hashlib.sha256(json.dumps([epoch, screenshot, instruction]).encode()).hexdigest()


def plan_turn(
    record: SessionRecord,
    ask: TurnAsk,
    shot: Screenshot,
    transcript: Sequence[Piece],
    worker: Worker,
    max_turn_tokens: int,
) -> Plan:
    """The prompt of a session's next turn on a worker. ``transcript`` is everything the session's
    turns came to.

    Raises InvalidRequest when it cannot fit the worker's context.
    """
    session = record.session
    item = VisualItem(
        blob=shot.model_sha256,
        size=session.space.model,
        tokens=session.space.visual_tokens,
        turn=session.turns,
    )
    budget = turn_budget(record, ask, worker, max_turn_tokens)
    held = held_of(record, transcript)
    return plan_prompt(parse_policy(session.policy), held, [item], budget)


def held_of(record: SessionRecord, transcript: Sequence[Piece]) -> list[Piece]:
    """What of a transcript the last prompt had, that is, what the worker holds: a policy with whole
    screens drops the oldest for good."""
    return [
        piece
        for piece in transcript
        if not isinstance(piece, VisualItem) or piece.turn >= record.oldest_screen
    ]


def turn_budget(record: SessionRecord, ask: TurnAsk, worker: Worker, max_turn_tokens: int) -> int:
    """Tokens that a turn's plan may take in the worker's context. May be zero or less."""
    session = record.session
    return prompt_budget(
        worker,
        max_turn_tokens,
        session.task if session.turns == 0 else "",
        ask.instruction or "",
        ask.outcome.message if ask.outcome else "",
    )


def host_turn(
    record: SessionRecord,
    ask: TurnAsk,
    plan: Plan,
    handed: Path,
    worker: Worker,
    timeout_s: float,
    max_turn_tokens: int,
) -> HostTurn:
    """The request to the program host. The first turn's instruction is the task by default."""
    session = record.session
    first = session.turns == 0
    instruction = ask.instruction
    if instruction is None:
        instruction = session.task if first else ""
    return HostTurn(
        session_id=session.id,
        tenant=record.tenant,
        request_id=ask.request_id,
        program=session.program,
        task=session.task,
        instruction=instruction,
        outcome=ask.outcome,
        first=first,
        turn=session.turns,
        plan=plan,
        handed=handed,
        space=session.space,
        family=record.binding.family,
        worker_url=worker.url,
        tokenizer_sha256=record.binding.tokenizer_sha256,
        timeout_s=timeout_s,
        max_turn_tokens=max_turn_tokens,
        cache_salt=record.salt,
        compression=ask.compression or session.compression,
        worker_id=worker.id,
    )


def started(plan: Plan, worker: Worker, attempt: int) -> dict[str, Any]:
    """What a turn's stream tells when it is sent to its worker."""
    return {
        "worker": {"id": worker.id, "boot_id": worker.boot_id},
        "attempt": attempt,
        "prior_tokens": plan.prior_tokens,
        "screen_tokens": num_tokens([*plan.screen]),
        "move": plan.move,
    }
