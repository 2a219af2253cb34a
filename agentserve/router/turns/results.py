"""What a turn came to. Pure."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from agentserve.core.actions import action_to_css, parse_action
from agentserve.core.errors import BadAction
from agentserve.core.hosting import HostAnswer
from agentserve.core.item_urls import keep_set
from agentserve.core.plans import Piece, Plan, VisualItem
from agentserve.core.screens import ScreenSpace
from agentserve.core.sessions import (
    InvalidAction,
    SentRegion,
    Session,
    Source,
    Timings,
    TokenMap,
    TurnResult,
    Usage,
    WorkerRef,
)
from agentserve.core.workers import Worker
from agentserve.router.pins.feedback import loss_of
from agentserve.router.store import SessionRecord
from agentserve.vision.screenshots import Screenshot
from agentserve.vision.settle import coverage, is_part, live_tokens, token_mask


def turn_result(
    record: SessionRecord,
    shot: Screenshot,
    plan: Plan,
    answer: HostAnswer,
    after: Sequence[Piece],
    worker: Worker,
    timings: Timings,
    attempts: int,
) -> TurnResult:
    """The answer to the client: the action in both spaces, or why it is none, and the usage.

    ``after`` is what the next prompt begins with.
    """
    session = record.session
    grid = session.space.grid
    action = model_action = invalid = None
    if answer.action_text is not None:
        try:
            model_action = parse_action(answer.action_text, session.space.model)
            action = action_to_css(model_action, session.space)
        except BadAction as error:
            reason = f"{error.message} ({error.hint})" if error.hint else error.message
            invalid = InvalidAction(text=answer.action_text, reason=reason)
    usage = _usage(session, plan, answer)
    assert session.pin is not None
    loss = None
    if answer.calls:
        loss = loss_of(session.pin, usage, moved_prefix=plan.move is not None)
    sources = answer.calls[0].sources if answer.calls else []
    return TurnResult(
        session_id=session.id,
        turn=session.turns,
        epoch=session.epoch,
        action=action,
        model_action=model_action,
        invalid=invalid,
        text=answer.text,
        variables=answer.variables,
        usage=usage if loss is None else usage.model_copy(update={"lost_tokens": loss.tokens}),
        timings=timings,
        worker=WorkerRef(id=worker.id, boot_id=worker.boot_id),
        screenshot=shot.sha256,
        move=plan.move,
        loss=loss,
        regions=_regions(plan, answer.pieces, sources, grid),
        token_map=_token_map(plan, after, session.space),
        live_visual_tokens=sum(p.tokens for p in after if isinstance(p, VisualItem)),
        rebuilt=any(call.rebuilt for call in answer.calls),
        attempts=attempts,
    )


def _usage(session: Session, plan: Plan, answer: HostAnswer) -> Usage:
    first = answer.calls[0] if answer.calls else None
    return Usage(
        prompt_tokens=first.prompt_tokens if first else 0,
        cached_tokens=first.cached_tokens if first else 0,
        visual_tokens=plan.visual_tokens,
        completion_tokens=sum(call.completion_tokens for call in answer.calls),
        prefilled_tokens=sum(c.prompt_tokens - c.cached_tokens for c in answer.calls),
        stored_prefix_tokens=plan.prior_tokens,
        screen_tokens=session.space.visual_tokens,
        sent_tokens=sum(item.tokens for item in plan.screen),
        pruned_tokens=sum(call.pruned_tokens for call in answer.calls),
        freed_tokens=sum(call.freed_tokens for call in answer.calls),
        encoded_pictures=sum(call.sources.count("encoder") for call in answer.calls),
        calls=[call.model_copy(update={"sources": []}) for call in answer.calls],
    )


def _token_map(plan: Plan, after: Sequence[Piece], space: ScreenSpace) -> TokenMap | None:
    """None without parts of a screen."""
    if not plan.mosaic:
        return None
    rows, columns = space.model.height // space.grid, space.model.width // space.grid
    items = [piece for piece in after if is_part(piece)]

    def bits(places: np.ndarray) -> str:
        return keep_set(np.flatnonzero(places), rows * columns)

    nowhere = np.zeros((rows, columns), np.int64)
    return TokenMap(
        rows=rows,
        columns=columns,
        sent=bits(coverage(plan.screen, space.grid) if plan.screen else nowhere),
        live=bits(live_tokens(items, space.grid) if items else nowhere),
    )


def _regions(
    plan: Plan, pieces: Sequence[Piece], sources: list[Source], grid: int
) -> list[SentRegion]:
    """``sources`` are those of all the prompt's pictures: the new screen's are the last.
    ``pieces`` are what was sent, with what the engine left of it."""
    parts = [item for item in plan.screen if item.box is not None]
    of_parts: list[Source | None] = [None] * len(parts)
    pictures = sum(isinstance(piece, VisualItem) for piece in plan.prior) + len(parts)
    if parts and len(sources) == pictures:  # else the first call did not show the screen yet
        of_parts[:] = sources[-len(parts) :]
    left = {
        item.box: int(token_mask(thinned, grid).sum())
        for item in pieces
        if isinstance(item, VisualItem) and item.thinning is not None and item.thinning.keep
        for thinned in [item.model_copy(update={"keep": item.thinning.keep})]
    }
    return [
        _region(item, source, left.get(item.box), grid)
        for item, source in zip(parts, of_parts, strict=True)
    ]


def _region(item: VisualItem, source: Source | None, left: int | None, grid: int) -> SentRegion:
    assert item.box is not None
    full = (item.box.width // grid) * (item.box.height // grid)
    return SentRegion(
        box=item.box,
        tokens=item.tokens,
        full_tokens=full,
        shared=item.shared,
        left_tokens=left,
        source=source,
    )
