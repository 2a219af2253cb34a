"""What the SQLite store keeps in memory of what it wrote."""

from __future__ import annotations

from agentserve.core.plans import TextPiece
from agentserve.router.store import HeldRecord
from agentserve.router.store.recent import RecentSessions

from .records import record, turn


def test_what_was_written_is_known() -> None:
    recent = RecentSessions()
    recent.created(record())
    first, second = turn(0, 1), turn(1, 2)
    later = record().model_copy(update={"version": 1})
    recent.updated(later, first, 10)
    recent.updated(later, None, 0)
    known = recent.get("s_1")
    assert known is not None
    assert (known.record, known.turn, known.held) == (later, first, None)
    recent.updated(later, second, 10)
    known = recent.get("s_1")
    assert known is not None
    assert (known.turn, known.transcript) == (second, [TextPiece(ids=[1]), TextPiece(ids=[2])])
    recent.forget("s_1")
    assert recent.get("s_1") is None


def test_what_was_written_before_is_not() -> None:
    """As after a restart: the store has turns that the memory never saw."""
    recent = RecentSessions()
    recent.updated(record(), turn(5, 1), 10)
    known = recent.get("s_1")
    assert known is not None
    assert (known.transcript, known.held) == (None, None)


def test_a_mosaic_session_is_known_by_what_is_held() -> None:
    recent = RecentSessions()
    recent.created(record())
    for since in (1, 2):
        held = HeldRecord(since=since)
        recent.updated(record(), turn(since, 1, held=held), 10)
        known = recent.get("s_1")
        assert known is not None
        assert (known.held, known.transcript) == (held, None)
        assert known.turn == turn(since, 1)
    recent.updated(record(), None, 0)
    known = recent.get("s_1")
    assert known is not None and known.held == HeldRecord(since=2)


def test_those_written_last_stay() -> None:
    recent = RecentSessions(max_characters=10_000)
    for name in "abc":
        recent.created(record(name))
    recent.updated(record("a"), turn(0, 1), 4_000)  # three records and this are too much
    assert [recent.get(name) is None for name in "abc"] == [False, False, False]
    recent.updated(record("a"), turn(1, 1), 1_000)
    assert [recent.get(name) is None for name in "abc"] == [False, True, False]
    recent.forget("a")
    for name in "defg":
        recent.created(record(name))
    assert [recent.get(name) is None for name in "acdefg"] == [True] + [False] * 5
