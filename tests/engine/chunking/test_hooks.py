"""What SGLang's scheduler is told to take, without a scheduler."""

from __future__ import annotations

from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest

from agentserve.engine.chunking import hooks


@dataclass
class Adder:
    """As much of a PrefillAdder as the hooks look at; ``original`` says what SGLang would."""

    rem_chunk_tokens: int | None
    can_run_list: list[Any] = field(default_factory=list)
    new_chunked_req: Any = None

    def original(self, adder: Adder, request: Any, **_: Any) -> Any:
        assert adder is self
        whole = request.length - request.prefix_len
        taken = whole if self.rem_chunk_tokens is None else min(whole, self.rem_chunk_tokens)
        if self.rem_chunk_tokens is not None:
            self.rem_chunk_tokens -= taken
        self.can_run_list.append(request)
        return SimpleNamespace(extend_len=taken, is_chunked=taken < whole)


@dataclass(eq=False)
class Request:
    length: int
    spans: list[tuple[int, int]]
    prefix_len: int = 0
    first: int | None = None
    """The first token to choose from, if any."""


@pytest.fixture(autouse=True)
def known(monkeypatch: pytest.MonkeyPatch):
    def entry_of(request: Request) -> Any:
        if request.first is None:
            return None
        return SimpleNamespace(looks=True, reason=None, first=request.first)

    monkeypatch.setattr(hooks, "entry_of", entry_of)
    for name, function in {
        "pictures": lambda request: request.spans,
        "length": lambda request: request.length,
        "chunk_size": lambda: 100,
        "not_now": lambda: "not now",
        "is_chunked": lambda verdict: verdict != "not now" and verdict.is_chunked,
    }.items():
        monkeypatch.setattr(hooks.compat, name, function)


def select(adder: Adder, request: Request, *, unfinished: bool = False) -> Any:
    return hooks.select_admission(
        adder.original, adder, request, host_hit_length=0, has_chunked_req=unfinished
    )


def test_a_chunk_ends_before_a_picture():
    adder = Adder(100)
    verdict = select(adder, Request(300, [(80, 140)]))
    assert (verdict.extend_len, verdict.is_chunked) == (80, True)
    assert adder.rem_chunk_tokens == 20


def test_a_picture_that_fits_a_chunk_is_taken_whole():
    adder = Adder(70)  # the rest of a chunk: others decode in the same batch
    verdict = select(adder, Request(300, [(80, 160)], prefix_len=80))
    assert verdict.extend_len == 80
    assert adder.rem_chunk_tokens == -10


def test_a_prompt_without_pictures_goes_the_stock_way():
    assert select(Adder(100), Request(300, [])).extend_len == 100


def test_without_chunks_everything_is_taken():
    assert select(Adder(None), Request(300, [(80, 140)])).extend_len == 300


def test_what_is_pruned_waits_for_a_batch_and_takes_all_of_it():
    request = Request(300, [(80, 140)], prefix_len=80, first=80)
    assert select(Adder(60, [object()]), request) == "not now"
    assert select(Adder(100), request).extend_len == 220


@pytest.mark.parametrize("spans", [[], [(250, 280)]])
def test_behind_an_unfinished_prompt_others_come_whole_or_not_at_all(spans: list):
    long, short = Request(300, spans), Request(20, [])
    assert select(Adder(20, [object()]), long, unfinished=True) == "not now"
    assert select(Adder(20, [object()], new_chunked_req=object()), long) == "not now"
    assert select(Adder(20, [object()]), short, unfinished=True).extend_len == 20
    assert select(Adder(20, [object()]), long).extend_len == 20


def test_a_prompt_that_goes_on():
    adder = Adder(100)
    request = Request(400, [(120, 180), (190, 230)], prefix_len=100)
    verdict = hooks.add_chunked(adder.original, adder, request)
    assert verdict.extend_len == 90
