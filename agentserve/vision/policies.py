"""Which earlier screens a prompt keeps.

``full``               everything, until the context is full
``current``            all text and the new screen only
``last:N``             all text and the last N screens, the new one included
``interval:MIN:STEP``  grows like ``full``; when there would be MIN + STEP screens, only the last
                       MIN stay, so that the prefix breaks every STEP turns instead of at each one
``mosaic``             one screen, of which each turn sends what changed (see mosaic)

Text is never dropped: it is the agent's memory, and what it decided by.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from agentserve.core.errors import InvalidRequest
from agentserve.core.families import Family
from agentserve.core.plans import Piece, Plan, VisualItem, num_tokens
from agentserve.core.pruning import Compression, check_compression
from agentserve.vision.cells import check_cell

MARKER_TOKENS = 2
"""Vision markers around a screen, which the program host adds to its items."""
CELL_TOKENS = 4
"""Edge of the usual cell, in tokens."""
KNOWN = ("full", "current", "last:N", "interval:MIN:STEP", "mosaic")
_NUMBER = "([1-9][0-9]{0,3})"


@dataclass(frozen=True)
class Policy:
    """A parsed policy."""

    name: str
    screens: int | None
    """How many screens, the new one included, stay when some are dropped. None: all may stay."""
    most: int | None
    """The most screens in a prompt; one more, and some are dropped."""

    @property
    def mosaic(self) -> bool:
        return self.name == "mosaic"


def parse_policy(text: str) -> Policy:
    """Raises InvalidRequest for anything but a known policy; N, MIN and STEP are 1 to 9999."""
    if text in ("full", "mosaic"):
        return Policy(text, None, None)
    if text == "current":
        return Policy(text, 1, 1)
    if match := re.fullmatch(f"last:{_NUMBER}", text):
        return Policy(text, int(match[1]), int(match[1]))
    if match := re.fullmatch(f"interval:{_NUMBER}:{_NUMBER}", text):
        least, step = int(match[1]), int(match[2])
        return Policy(text, least, least + step - 1)
    raise InvalidRequest(
        f"unknown policy {text!r}",
        hint=f"known policies: {', '.join(KNOWN)} (numbers from 1 to 9999)",
        details={"policies": list(KNOWN)},
    )


def check_policy(policy: Policy, family: Family, cell: int | None) -> int | None:
    """The edge of a session's cells in px, None when its policy has none.

    ``cell`` is the edge that was asked for, None for the usual one. Raises InvalidRequest when
    models of the family cannot run the policy, or not with such cells.
    """
    if not policy.mosaic:
        return None
    if not family.mrope:
        raise InvalidRequest(
            f"models of the family {family.name} cannot run the policy mosaic: they have no "
            "two-dimensional positions",
            hint="choose current, or another policy with whole screens",
        )
    edge = CELL_TOKENS * family.grid if cell is None else cell
    check_cell(edge, family.grid)
    return edge


def check_thinning(policy: Policy, compression: Compression, family: Family, depth: int) -> None:
    """Raises InvalidRequest when sessions of the policy, or a model of the family with so many
    layers, cannot do what ``compression`` says."""
    if compression != Compression() and not policy.mosaic:
        raise InvalidRequest(
            f"the policy {policy.name} sends whole pictures: none of their tokens can be left out",
            hint="choose the policy mosaic, whose prompts name what is left of a screen",
        )
    check_compression(compression, family, depth)


def plan_prompt(
    policy: Policy,
    transcript: Sequence[Piece],
    screen: Sequence[VisualItem],
    budget_tokens: int,
) -> Plan:
    """The next prompt of a policy with whole screens: what stays of the transcript, then the new
    screen. For ``mosaic`` see mosaic.plan_mosaic.

    ``transcript`` is the last prompt with its answer, that is, what the worker holds of the
    session. Screens that an earlier plan dropped are not in it and never come back, which would
    break the prefix a second time. Dropping anything is declared in ``Plan.move``: ``policy``, or
    ``context`` when the prompt would have more than ``budget_tokens``.

    Raises InvalidRequest when text and new screen alone are over the budget.
    """
    assert not policy.mosaic
    turns = sorted({item.turn for item in transcript if isinstance(item, VisualItem)})
    kept = turns
    if policy.screens is not None and policy.most is not None and len(turns) + 1 > policy.most:
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
        raise does_not_fit(text_tokens, new_tokens, budget_tokens)
    prior = [p for p in transcript if not isinstance(p, VisualItem) or p.turn in kept]
    return Plan(prior=prior, screen=list(screen), move=move)


def does_not_fit(text: int, screen: int, budget: int) -> InvalidRequest:
    """For a prompt that is too long although nothing is left to drop; numbers of tokens."""
    return InvalidRequest(
        f"the prompt does not fit: {text} tokens of text and {screen} of the new screen, "
        f"with room for {budget}",
        hint="start a new session, at a lower scale, or on a worker with a longer context",
    )


def _screen_tokens(transcript: Sequence[Piece], turn: int) -> int:
    return sum(
        item.prompt_tokens
        for item in transcript
        if isinstance(item, VisualItem) and item.turn == turn
    )
