from __future__ import annotations

import random

import pytest

from agentserve.core.sessions import ScreenPolicy
from agentserve.nano.evaluate.scores import HASH_DIGITS, reckon, run_hash, score, wilson


@pytest.mark.parametrize(
    ("successes", "episodes", "low", "high"),
    # by hand from the formula, z = 1.959964
    [
        (0, 10, 0.0, 0.2775),
        (10, 10, 0.7225, 1.0),
        (5, 10, 0.2366, 0.7634),
        (95, 100, 0.8882, 0.9785),
        (1, 1, 0.2065, 1.0),
    ],
)
def test_wilsons_interval(successes: int, episodes: int, low: float, high: float) -> None:
    assert wilson(successes, episodes) == pytest.approx((low, high), abs=5e-5)


def test_the_interval_ends_exactly_at_the_ends() -> None:
    for n in range(1, 200):
        assert wilson(0, n)[0] == 0.0
        assert wilson(n, n)[1] == 1.0


@pytest.mark.parametrize(("successes", "episodes"), [(0, 0), (2, 1), (-1, 3)])
def test_no_rate_has_no_interval(successes: int, episodes: int) -> None:
    with pytest.raises(ValueError, match="no rate"):
        wilson(successes, episodes)


def test_a_score_counts_turns_times_and_errors(episode) -> None:
    figures = score(
        [
            episode(0, True, turns=1, turn_ms=[100.0]),
            episode(1, False, turns=3, turn_ms=[300.0, 500.0, 400.0]),
            episode(2, False, turns=0, end="error", message="worker_lost: gone"),
        ]
    )
    assert (figures.episodes, figures.successes, figures.errors) == (3, 1, 1)
    assert figures.rate == pytest.approx(1 / 3)
    assert figures.mean_turns == pytest.approx(4 / 3)
    assert figures.median_turn_ms == 350.0


def test_who_asks_no_router_has_no_turn_time(episode) -> None:
    assert score([episode(player="random")]).median_turn_ms is None


def test_each_task_weighs_the_same(conditions, episode) -> None:
    episodes = [episode(seed, True, task="a") for seed in range(20)]
    episodes += [episode(seed, seed == 0, task="b") for seed in range(4)]
    episodes += [episode(0, False, task="a", player="random")]
    scores = reckon(conditions, ("b", "a", "c"), episodes)
    assert [row.task for row in scores.tasks] == ["b", "a"], "in the order asked for, c unplayed"
    assert scores.players == ["trained", "random"]
    assert scores.summary["trained"].mean_rate == pytest.approx((1.0 + 0.25) / 2)
    assert scores.summary["trained"].mastered == 1
    assert scores.summary["random"].tasks == 1
    assert set(scores.tasks[0].players) == {"trained"}


def test_a_task_is_mastered_from_95_percent_on(conditions, episode) -> None:
    for successes, mastered in ((94, 0), (95, 1)):
        episodes = [episode(seed, seed < successes) for seed in range(100)]
        scores = reckon(conditions, ("click-test",), episodes)
        assert scores.summary["trained"].mastered == mastered


def test_nothing_played_gives_no_figures(conditions) -> None:
    scores = reckon(conditions, ("a",), [])
    assert scores.tasks == []
    assert scores.summary == {}
    assert scores.errors == 0


def test_the_hash_stands_for_model_seeds_and_outcomes(conditions, episode) -> None:
    episodes = [episode(seed, seed % 2 == 0, task=task) for task in "ab" for seed in range(5)]
    own = run_hash(conditions, episodes)
    assert len(own) == HASH_DIGITS
    assert int(own, 16) >= 0
    shuffled = random.Random(1).sample(episodes, len(episodes))
    slower = [one.model_copy(update={"seconds": 9.0, "turn_ms": [1.0]}) for one in shuffled]
    newer = conditions.model_copy(update={"versions": {"agentserve": "9"}})
    assert run_hash(newer, slower) == own
    others = [
        run_hash(conditions.model_copy(update={"model_sha256": "c" * 64}), episodes),
        run_hash(conditions.model_copy(update={"screens": ScreenPolicy(policy="full")}), episodes),
        run_hash(conditions, episodes[1:]),
        run_hash(conditions, [episode(0, False, task="a"), *episodes[1:]]),
        run_hash(conditions, [episode(0, True, task="a", player="oracle"), *episodes[1:]]),
    ]
    assert len({own, *others}) == len(others) + 1
