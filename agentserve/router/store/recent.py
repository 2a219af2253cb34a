"""What was written last of the sessions in use, for a store that one process has to itself.

A turn reads its session several times. To read it back from where it was written takes a thread's
time and its JSON's parsing, for values that were at hand.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, replace

from agentserve.core.config import MIB
from agentserve.core.plans import Piece
from agentserve.router.store.base import HeldRecord, SessionRecord, TurnRecord

MAX_CHARACTERS = 16 * MIB
"""Of JSON; as objects it is several times as much."""
_RECORD = 2000
"""Of a session's record, about."""


@dataclass(frozen=True)
class Recent:
    """Of one session. What is None was not written lately: it is in the store, or nowhere."""

    record: SessionRecord
    turn: TurnRecord | None = None
    """The last one."""
    held: HeldRecord | None = None
    transcript: Sequence[Piece] | None = None
    """Not of a mosaic session, which is planned from what is held."""
    characters: int = _RECORD


class RecentSessions:
    """Those written last stay. Only writes put something in: what a read brings may be old when it
    arrives."""

    def __init__(self, max_characters: int = MAX_CHARACTERS) -> None:
        self._max = max_characters
        self._characters = 0
        self._sessions: OrderedDict[str, Recent] = OrderedDict()

    def get(self, session_id: str) -> Recent | None:
        return self._sessions.get(session_id)

    def created(self, record: SessionRecord) -> None:
        """A session without a turn."""
        self._put(Recent(record, transcript=()))

    def updated(self, record: SessionRecord, turn: TurnRecord | None, characters: int) -> None:
        """``characters``: of what is new, beside the record."""
        before = self._sessions.get(record.session.id)
        known = Recent(record) if before is None else replace(before, record=record)
        if turn is not None and turn.held is not None:
            last = replace(turn, held=None)
            known = Recent(record, last, turn.held, characters=_RECORD + characters)
        elif turn is not None:
            transcript = known.transcript
            if transcript is not None:
                transcript = [*transcript, *turn.pieces]
            characters += known.characters
            known = replace(known, turn=turn, transcript=transcript, characters=characters)
        self._put(known)

    def forget(self, session_id: str) -> None:
        """It is gone, or nobody knows what was written of it."""
        gone = self._sessions.pop(session_id, None)
        if gone is not None:
            self._characters -= gone.characters

    def _put(self, known: Recent) -> None:
        session_id = known.record.session.id
        self.forget(session_id)
        self._sessions[session_id] = known
        self._characters += known.characters
        while self._characters > self._max:
            self.forget(next(iter(self._sessions)))
