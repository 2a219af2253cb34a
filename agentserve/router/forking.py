"""A session that goes on from another one. Pure."""

from __future__ import annotations

from agentserve.core.errors import InvalidRequest
from agentserve.core.sessions import ScreenPolicy, Session, SessionCreate, creation_of
from agentserve.router.store import Forked, SessionRecord

_INHERITED = ("program", "model", "viewport", "scale", "surface", *ScreenPolicy.model_fields)


def check_fork(create: SessionCreate, parent: Session) -> None:
    """Raises InvalidRequest when a fork asks for something else than what its parent is."""
    same = creation_of(parent)
    for name in _INHERITED:
        value, expected = getattr(create, name), getattr(same, name)
        if value != expected and (name, value) not in (("cell", None), ("model", None)):
            raise InvalidRequest(
                f"{name} is {value!r}; that of the parent {parent.id} is {expected!r}",
                hint="a fork continues its parent's prompt: send the same values",
            )


def forked(record: SessionRecord) -> SessionRecord:
    """Of a session from which another one is to be begun. What an earlier fork began with is a
    beginning of it, too, unless the prompt was restarted."""
    session = record.session
    assert session.pin is not None
    tokens = session.pin.expected_cached_tokens
    return record.model_copy(update={"forked": Forked(turn=session.turns, tokens=tokens)})


def begun_by_forks(record: SessionRecord) -> int:
    """First tokens of a session's prompt with which a fork begins that its worker may not have
    heard of. A mosaic's worker is told as soon as the session goes on."""
    at = record.forked
    if at is None or (record.session.cell is not None and at.turn != record.session.turns):
        return 0
    return at.tokens
