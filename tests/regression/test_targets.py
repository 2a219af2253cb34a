"""The page of a recording, opened again."""

from __future__ import annotations

from pathlib import Path

import pytest

from agentserve.agents.run import PageTarget
from agentserve.core.errors import InvalidRequest, RecordingError
from agentserve.regression.targets import live_target
from agentserve.replay import read_recording

RECORDINGS = Path(__file__).resolve().parents[2] / "scenarios" / "miniwob" / "recordings"


def test_further_origins_are_the_recording_s() -> None:
    recording = read_recording(RECORDINGS / "enter-text-0")
    fields = {"scenario": None, "url": "http://a/?t={{secret:TOKEN}}", "allow": ["http://b:81"]}
    meta = recording.meta.model_copy(update=fields)
    target = live_target(meta, {"TOKEN": "x/y"})
    assert isinstance(target, PageTarget)
    assert (target.url, target.allow) == ("http://a/?t=x%2Fy", ("http://b:81",))
    with pytest.raises(InvalidRequest, match="needs the secret TOKEN"):
        live_target(meta, {})
    with pytest.raises(RecordingError, match="does not say which page"):
        live_target(meta.model_copy(update={"url": ""}), {})
