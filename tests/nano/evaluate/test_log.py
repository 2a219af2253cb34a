from __future__ import annotations

from pathlib import Path

import pytest

from agentserve.core.errors import InvalidRequest
from agentserve.core.sessions import ScreenPolicy
from agentserve.nano.evaluate.log import EpisodeLog


@pytest.fixture
def path(tmp_path: Path, conditions, episode) -> Path:
    """A log of three episodes, the last of which the machinery broke off."""
    path = tmp_path / "out.json.partial"
    with EpisodeLog(path, conditions, resume=False) as log:
        assert log.episodes == []
        log.add(episode(0))
        log.add(episode(1, False))
        log.add(episode(2, False, end="error", message="worker_lost: gone"))
    return path


def test_a_resumed_log_gives_back_its_episodes(path: Path, conditions, episode) -> None:
    with EpisodeLog(path, conditions, resume=True) as log:
        assert log.episodes == [episode(0), episode(1, False)], "what was broken off is played anew"
        log.add(episode(2))
    with EpisodeLog(path, conditions, resume=True) as log:
        assert [one.seed for one in log.episodes] == [0, 1, 2]


def test_an_episode_is_on_disk_as_soon_as_it_is_added(tmp_path: Path, conditions, episode) -> None:
    path = tmp_path / "log"
    with EpisodeLog(path, conditions, resume=False) as log:
        log.add(episode(5))
        assert path.read_text().splitlines()[1] == episode(5).model_dump_json()


def test_a_line_that_a_kill_cut_off_is_dropped(path: Path, conditions, episode) -> None:
    whole = path.read_bytes()
    path.write_bytes(whole[:-9])
    with EpisodeLog(path, conditions, resume=True) as log:
        assert [one.seed for one in log.episodes] == [0, 1]
        log.add(episode(3))
    with EpisodeLog(path, conditions, resume=True) as log:
        assert [one.seed for one in log.episodes] == [0, 1, 3], "no line grows onto the torn one"


def test_an_empty_log_is_begun_anew(tmp_path: Path, conditions) -> None:
    path = tmp_path / "log"
    path.touch()
    with EpisodeLog(path, conditions, resume=True) as log:
        assert log.episodes == []
    assert path.read_text() == f"{conditions.model_dump_json()}\n"


def test_a_log_is_not_written_over(path: Path, conditions) -> None:
    with pytest.raises(InvalidRequest, match="unfinished") as raised:
        EpisodeLog(path, conditions, resume=False)
    assert "--resume" in raised.value.hint
    assert len(path.read_text().splitlines()) == 4


def test_results_of_other_conditions_are_not_mixed_in(path: Path, conditions) -> None:
    other = conditions.model_copy(
        update={"model_sha256": "c" * 64, "screens": ScreenPolicy(policy="full")}
    )
    with pytest.raises(InvalidRequest, match="conditions: model_sha256, screens"):
        EpisodeLog(path, other, resume=True)


def test_a_damaged_log_is_told(path: Path, conditions) -> None:
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join([*lines[:2], "nonsense\n", *lines[2:]]))
    with pytest.raises(InvalidRequest, match="no log of an evaluation"):
        EpisodeLog(path, conditions, resume=True)
