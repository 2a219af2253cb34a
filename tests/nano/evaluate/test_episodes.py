from __future__ import annotations

import pytest
from pydantic import ValidationError

from agentserve.nano.evaluate.episodes import HELD_OUT, Job, plan


def test_the_players_meet_the_same_seeds_one_after_the_other() -> None:
    jobs = plan(("a", "b"), 2, ("trained", "random"))
    assert [(job.task, job.seed, job.player) for job in jobs] == [
        ("a", 0, "trained"), ("a", 0, "random"), ("a", 1, "trained"), ("a", 1, "random"),
        ("b", 0, "trained"), ("b", 0, "random"), ("b", 1, "trained"), ("b", 1, "random"),
    ]  # fmt: skip


@pytest.mark.parametrize("seed", [-1, HELD_OUT])
def test_a_seed_that_may_have_been_trained_on_is_refused(seed: int) -> None:
    with pytest.raises(ValidationError):
        Job(task="a", seed=seed, player="trained")


def test_an_episode_knows_its_job(episode) -> None:
    assert episode(seed=3).job == Job(task="click-test", seed=3, player="trained")
