from __future__ import annotations

from pathlib import Path

import pytest
from replay.replay_builders import DONE, make_steps, record

from agentserve.replay import Recording, ScenarioRef, read_recording


@pytest.fixture
async def recording(tmp_path: Path) -> Recording:
    """Three clicks that succeed."""
    recorder = await record(
        tmp_path / "recordings",
        make_steps(3),
        end=DONE,
        id="clean",
        scenario=ScenarioRef(name="click-button", seed=7),
    )
    return read_recording(recorder.folder)
