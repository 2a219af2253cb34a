from __future__ import annotations

from pathlib import Path

import pytest

from agentserve.core.errors import InvalidRequest
from agentserve.core.sessions import Usage
from agentserve.nano.evaluate.compare import compare, read_report
from agentserve.nano.evaluate.scores import run_hash

KEPT = Path(__file__).parents[2] / "results" / "nano" / "evaluate.json"


@pytest.fixture(scope="module")
def kept():
    return read_report(KEPT)


def changed(report, outcomes: dict[int, bool], **usage):
    """The report with the trained model's first episodes, by index, ended otherwise."""
    episodes = [e for e in report.episodes if e.player == "trained"]
    for index, success in outcomes.items():
        episodes[index] = episodes[index].model_copy(update={"success": success})
    used = Usage(sent_tokens=100, **usage)
    episodes = [episode.model_copy(update={"usage": used}) for episode in episodes]
    return report.model_copy(update={"episodes": episodes})


def test_a_kept_run_keeps_its_hash(kept):
    """Settings that it did not know, and did not have, change nothing."""
    assert run_hash(kept.conditions, kept.episodes) == kept.scores.run


def test_episode_by_episode(kept):
    won_first = [e.success for e in kept.episodes if e.player == "trained"]
    first, second = won_first.index(True), won_first.index(False)
    base = changed(kept, {})
    other = changed(kept, {first: False, second: True}, pruned_tokens=25, freed_tokens=8)
    baseline, row = compare([("off", base), ("half", other)])
    assert (baseline.lost, baseline.won, baseline.points) == (0, 0, 0.0)
    assert (row.lost, row.won, row.points) == (1, 1, 0.0)
    assert row.episodes == len(won_first) and row.successes == sum(won_first)
    assert row.low < row.successes / row.episodes < row.high
    assert (row.sent_share, row.computed_share, row.freed_tokens) == (1.0, 0.75, 8.0)


def test_only_what_both_have_played_counts(kept):
    base = changed(kept, {})
    fewer = base.model_copy(update={"episodes": base.episodes[:50]})
    assert compare([("off", base), ("some", fewer)])[1].episodes == 50
    none = base.model_copy(update={"episodes": []})
    with pytest.raises(InvalidRequest, match="no episode in common"):
        compare([("off", base), ("none", none)])


def test_other_weights_are_refused(kept):
    other = kept.model_copy(
        update={"conditions": kept.conditions.model_copy(update={"model_sha256": "0" * 64})}
    )
    with pytest.raises(InvalidRequest, match="other weights"):
        compare([("off", kept), ("b", other)])


def test_what_is_no_evaluation(tmp_path: Path):
    (tmp_path / "a.json").write_text("{}")
    for path in (tmp_path / "a.json", tmp_path / "missing.json"):
        with pytest.raises(InvalidRequest, match="is no evaluation"):
            read_report(path)
