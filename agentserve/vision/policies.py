"""Which earlier screens a prompt keeps.

``full``     everything, until the context is full
``current``  all text and the new screen only
``last:N``   all text and the last N screens, the new one included

Text is never dropped: it is the agent's memory, and what it decided by.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from agentserve.core.errors import InvalidRequest
from agentserve.core.plans import Piece, Plan, VisualItem, num_tokens

MARKER_TOKENS = 2
"""Vision markers around an item, which the program host adds to a new screen's items."""


@dataclass(frozen=True)
class Policy:
    """A parsed policy. ``screens`` is the most screens in a prompt, None when all may stay."""

    name: str
    screens: int | None


def parse_policy(text: str) -> Policy:
    """``full``, ``current`` or ``last:N``. Raises InvalidRequest for anything else."""
    if text == "full":
        return Policy(text, None)
    if text == "current":
        return Policy(text, 1)
    if match := re.fullmatch(r"last:([1-9][0-9]{0,3})", text):
        return Policy(text, int(match[1]))
    raise InvalidRequest(
        f"unknown policy {text!r}",
        hint="known policies: full, current, last:N (N from 1 to 9999)",
        details={"policies": ["full", "current", "last:N"]},
    )


def plan_prompt(
    policy: Policy,
    transcript: Sequence[Piece],
    screen: Sequence[VisualItem],
    budget_tokens: int,
) -> Plan:
    """The next prompt: what stays of the transcript, then the new screen.

    ``transcript`` is the last prompt with its answer, that is, what the worker holds of the
    session. Screens that an earlier plan dropped are not in it and never come back, which would
    break the prefix a second time. Dropping anything is declared in ``Plan.move``: ``policy``, or
    ``context`` when the prompt would have more than ``budget_tokens``.

    Raises InvalidRequest when text and new screen alone are over the budget.
    """
    turns = sorted({item.turn for item in transcript if isinstance(item, VisualItem)})
    kept = turns
    if policy.screens is not None:
        kept = turns[max(0, len(turns) - (policy.screens - 1)) :]
    move = "policy" if kept != turns else None

    new_tokens = sum(item.tokens for item in screen) + MARKER_TOKENS * len(screen)
    sizes = {turn: _screen_tokens(transcript, turn) for turn in turns}
    text_tokens = num_tokens(list(transcript)) - sum(sizes.values())
    excess = text_tokens + new_tokens + sum(sizes[turn] for turn in kept) - budget_tokens
    while excess > 0 and kept:
        oldest, *kept = kept
        excess -= sizes[oldest]
        move = "context"
    if excess > 0:
        raise InvalidRequest(
            f"the prompt does not fit: {text_tokens} tokens of text and {new_tokens} of the new "
            f"screen, with room for {budget_tokens}",
            hint="start a new session, at a lower scale, or on a worker with a longer context",
        )
    prior = [p for p in transcript if not isinstance(p, VisualItem) or p.turn in kept]
    return Plan(prior=prior, screen=list(screen), move=move)


def _screen_tokens(transcript: Sequence[Piece], turn: int) -> int:
    return sum(
        item.prompt_tokens
        for item in transcript
        if isinstance(item, VisualItem) and item.turn == turn
    )
