"""From what was chosen in a prefill to what becomes of the prompt."""

from __future__ import annotations

import numpy as np
import torch

from agentserve.core.item_urls import kept_tokens
from agentserve.core.pruning import Eviction, Pruning
from agentserve.engine.pruning.book import Entry
from agentserve.engine.pruning.decide import decide
from agentserve.engine.pruning.targets import Chosen

from .changes import change_with, open_item

ITEMS = (open_item(3, (2, 3)), open_item(11, (2, 2), [1, 2, 3]))
FASTV = Pruning(method="fastv")
ATTENTION = Eviction(method="attention", keep=0.34)  # 4 of 9
KEPT = torch.tensor([0, 1, 4, 5, 7, 8])
SCORES = torch.tensor([0.6, 0.5, 0.4, 0.3, 0.2, 0.1])


def entry(chosen: Chosen | None, reason: str | None = None, **settings) -> Entry:
    return Entry(change_with(*ITEMS, length=20, **settings), chosen, reason)


def keeps(of) -> list[list[int]]:
    return [kept_tokens(keep, size).tolist() for keep, size in zip(of.keeps, (6, 4), strict=True)]


def test_a_pruning_alone():
    decision = decide(entry(Chosen(KEPT), pruning=FASTV))
    assert decision.gone.tolist() == [5, 6, 12]
    assert keeps(decision) == [[0, 1, 4, 5], [2, 3]]
    # what may not stay in the cache leaves as well
    assert decision.change.rows.tolist() == [0, 1, 2, 3, 4, 7, 8, 9, 10, 13, 14, *range(15, 20)]
    assert decision.change.open == ()
    assert (decision.merged, decision.reason) == (None, None)


def test_an_eviction_alone_leaves_the_row_as_it_is():
    chosen = Chosen(torch.arange(9), torch.linspace(1, 0, 9))
    decision = decide(entry(chosen, eviction=ATTENTION))
    assert decision.gone.tolist() == []
    assert keeps(decision) == [[0, 1, 2], [1]]


def test_an_eviction_behind_a_pruning():
    decision = decide(entry(Chosen(KEPT, SCORES), pruning=FASTV, eviction=ATTENTION))
    assert decision.gone.tolist() == [5, 6, 12]
    assert keeps(decision) == [[0, 1, 4], [2]]


def test_what_look_m_drops_is_merged_into_what_it_keeps():
    look_m = Eviction(method="look_m", keep=0.34)
    decision = decide(entry(Chosen(KEPT, SCORES), pruning=FASTV, eviction=look_m))
    assert decision.merged is not None
    dropped, kept = decision.merged
    assert dropped.tolist() == [8, 14]
    assert kept.tolist() == [3, 4, 7, 13]
    everything = Eviction(method="look_m", keep=1.0)
    assert decide(entry(Chosen(KEPT, SCORES), pruning=FASTV, eviction=everything)).merged is None


def test_nothing_was_chosen():
    decision = decide(entry(None, "why not", pruning=FASTV, eviction=ATTENTION))
    assert decision.reason == "why not"
    assert keeps(decision) == [list(range(6)), [1, 2, 3]]
    assert not len(decision.gone)


def test_what_needs_no_attention_is_done_even_then():
    vtw = Eviction(method="vtw")
    assert keeps(decide(entry(None, "why not", pruning=FASTV, eviction=vtw))) == [[0, 5], [1, 3]]


def test_entries_know_whether_a_prefill_matters_to_them():
    assert entry(None, pruning=FASTV).looks
    assert entry(None, eviction=ATTENTION).looks
    assert not entry(None, eviction=Eviction(method="uniform")).looks
    assert entry(None, pruning=FASTV).first == 3
    assert entry(Chosen(KEPT, slots=torch.arange(3)), pruning=FASTV).gone == 3
    assert entry(Chosen(KEPT), pruning=FASTV).gone == entry(None, pruning=FASTV).gone == 0


def test_the_first_that_may_go_need_not_be_an_item_s_first():
    only = Entry(change_with(open_item(11, (2, 2), [1, 2, 3]), length=20))
    assert only.first == 12
    assert np.array_equal(only.change.rows, np.delete(np.arange(20), 11))
