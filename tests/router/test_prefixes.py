from __future__ import annotations

from agentserve.core.plans import Box, TextPiece, VisualItem
from agentserve.core.screens import Size
from agentserve.core.workers import Worker, WorkerState
from agentserve.router import prefixes
from agentserve.router.prefixes import Beginnings, Program, SharedPrefixes, shared_tokens

TEXT = TextPiece(ids=[1, 2, 3], text="abc")


def item(*, shared: bool) -> VisualItem:
    return VisualItem(
        blob="b" * 64, size=Size(width=56, height=28), tokens=2, turn=0, shared=shared,
        screen=Size(width=56, height=28), box=Box(x=0, y=0, width=56, height=28),
    )  # fmt: skip


def worker(name: str, boot_id: str = "b1") -> Worker:
    return Worker(id=name, url=f"http://{name}", state=WorkerState.READY, boot_id=boot_id)


def test_what_sessions_of_a_surface_begin_with():
    shared, private = item(shared=True), item(shared=False)
    assert shared_tokens([TEXT, shared, shared, private, shared]) == 3 + 2 + 2
    assert shared_tokens([TEXT, shared, TEXT, shared, TEXT]) == 3 + 2 + 3 + 2
    assert shared_tokens([TEXT, private, shared]) == 0
    assert shared_tokens([TEXT]) == 0


def test_a_new_life_has_nothing():
    known = SharedPrefixes()
    known.note("s", worker("a"), 700)
    assert known.tokens("s", worker("a")) == 700
    assert known.tokens("s", worker("a", "b2")) == known.tokens("s", worker("b")) == 0
    assert known.tokens("t", worker("a")) == 0


def test_the_longest_unseen_are_forgotten(monkeypatch):
    monkeypatch.setattr(prefixes, "REMEMBERED", 2)
    known = SharedPrefixes()
    for surface in ("one", "two", "one", "three"):
        known.note(surface, worker("a"), 700)
    assert [known.tokens(s, worker("a")) for s in ("one", "two", "three")] == [700, 0, 700]


def text(*ids: int) -> TextPiece:
    return TextPiece(ids=list(ids))


PROGRAM = Program("", "m", "a" * 64)


def test_a_program_begins_with_what_all_its_sessions_begin_with():
    known = Beginnings()
    picture = item(shared=False)
    assert known.tokens(PROGRAM) == 0
    known.note(PROGRAM, "one", [text(1, 2), text(3, 4, 5), picture, text(6)])
    assert known.tokens(PROGRAM) == 0  # which of it others begin with is not known yet
    known.note(PROGRAM, "one", [text(1, 2), text(8)])
    assert known.tokens(PROGRAM) == 0
    known.note(PROGRAM, "two", [text(1, 2, 3, 4, 9), picture, text(6)])
    assert known.tokens(PROGRAM) == 4
    known.note(PROGRAM, "three", [text(1, 2, 3, 4, 5), picture])
    assert known.tokens(PROGRAM) == 4
    known.note(PROGRAM, "four", [text(1, 2), picture, text(3, 4)])
    assert known.tokens(PROGRAM) == 2
    known.note(PROGRAM, "five", [picture])
    assert known.tokens(PROGRAM) == 0
    assert known.tokens(Program("other", "m", "a" * 64)) == 0


def test_two_sessions_that_begin_alike_throughout():
    known = Beginnings()
    for session in ("one", "two"):
        known.note(PROGRAM, session, [text(1, 2, 3), item(shared=False)])
    assert known.tokens(PROGRAM) == 3


def test_the_beginnings_of_programs_longest_unseen_are_forgotten(monkeypatch):
    monkeypatch.setattr(prefixes, "REMEMBERED", 2)
    monkeypatch.setattr(prefixes, "LONGEST", 2)
    known = Beginnings()
    programs = [Program("", "m", name) for name in ("one", "two", "one", "three")]
    for program in programs:
        for session in ("s_1", "s_2"):
            known.note(program, session, [text(1, 2, 3)])
    assert [known.tokens(program) for program in programs] == [2, 0, 2, 2]
