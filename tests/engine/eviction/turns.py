"""Turns of sessions that begin with the same screen, of which then one part at a time changes."""

from __future__ import annotations

from PIL import Image

from ..items.asking import Worker
from ..items.pictures import screen
from .sessions import HEIGHT, PARTS, WIDTH, Session, Turn

START = screen(1, WIDTH, HEIGHT)
UNSTORED = 1
"""The last token of an answer is not kept: it may have no KV, or be a stop that is left out."""


def started(worker: Worker, owner: str) -> Session:
    session = Session(worker, owner)
    session.turn(START, PARTS)
    return session


def changed(part: int, seed: int) -> Image.Image:
    x, y, width, height = PARTS[part]
    image = START.copy()
    image.paste(screen(seed, width, height), (x, y))
    return image


def change(session: Session, part: int, seed: int, **body) -> Turn:
    """One part of the screen has changed."""
    return session.turn(changed(part, seed), [PARTS[part]], f"turn {part}", **body)


def change_found(session: Session, part: int, seed: int) -> Turn:
    """The same, with all that was left of the session found in the cache."""
    live = session.live
    turn = change(session, part, seed)
    assert turn.answer.cached == live - UNSTORED
    assert turn.outcome["reason"] is None
    assert not turn.outcome["rebuilt"]
    return turn
