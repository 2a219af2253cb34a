"""What no other tool has a place for is told by every export."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from agentserve.core.actions import Click
from agentserve.core.pages import PageSettings
from agentserve.core.screens import Size
from agentserve.replay import EndLine, StepLine, read_recording
from agentserve.replay.exporters.formats import FORMATS, ExportFormat
from agentserve.replay.importers.taken import Taken, write_taken

PAGE = PageSettings(fixed_time=datetime(2026, 1, 1, tzinfo=UTC), random_seed=0, animations=False)


@pytest.mark.parametrize("known", FORMATS, ids=lambda known: known.name)
def test_what_a_replay_is_judged_by_is_told(tmp_path: Path, known: ExportFormat) -> None:
    act = Click(x=1, y=2)
    step = StepLine(index=0, url="http://a/", performed=act, pointer=(3, 4), thought="Why not")
    size, end = Size(width=9, height=9), EndLine(end="done", success=True, turns=1)
    taken = Taken(format="other", viewport=size, steps=(step,), url="http://a/", end=end)
    recording = read_recording(write_taken(tmp_path, "r", taken))
    before = known.give(recording).lost
    assert not [told for told in before if "expect.json" in told or "show the same" in told]
    (tmp_path / "r" / "expect.json").write_text(json.dumps({"schema_version": 1}))
    (tmp_path / "r" / "network.har").write_text("{}")
    more = {"page": PAGE, "allow": ["http://b"]}
    lost = known.give(replace(recording, meta=recording.meta.model_copy(update=more))).lost
    for told in (
        "what a replay must find (expect.json)",
        "what the pages fetched (network.har)",
        "how the pages were made to show the same (fixed_time, random_seed, animations)",
        "the further origins that might be visited",
    ):
        assert told in lost
    moves = known.name == "playwright"
    assert any("where the pointer was" in told for told in lost) == (not moves)
    script = "".join(data.decode() for data in known.give(recording).files.values())
    assert ("page.mouse.move(3, 4)" in script) == moves
    acts_only = known.name != "osworld"
    assert ("whether the task succeeded" in lost) == acts_only
    assert ("what was thought and answered beside the actions" in lost) == acts_only


@pytest.mark.parametrize("known", FORMATS, ids=lambda known: known.name)
def test_a_closing_step_is_no_act_that_is_lost(tmp_path: Path, known: ExportFormat) -> None:
    act = StepLine(index=0, url="http://a/", performed=Click(x=1, y=2))
    closing = StepLine(index=1, url="http://a/after")
    size = Size(width=9, height=9)
    given = []
    for name, steps in (("open", (act,)), ("closed", (act, closing))):
        taken = Taken(format="other", viewport=size, steps=steps, url="http://a/")
        given.append(known.give(read_recording(write_taken(tmp_path, name, taken))))
    assert given[1].lost == given[0].lost
    told = "".join(data.decode() for data in given[1].files.values())
    assert ("http://a/after" in told) == (known.name == "chrome-recorder")
