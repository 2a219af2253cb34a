from datetime import UTC, datetime
from pathlib import Path

from PIL import Image, ImageDraw
from replay.compare.test_screen_differences import png

from agentserve.core.actions import Click
from agentserve.core.actions.recorded import Resize
from agentserve.core.elements import PageBox
from agentserve.core.screens import Size
from agentserve.core.sessions import Outcome
from agentserve.regression.browsing import compare_screens
from agentserve.replay import Meta, Recording, RecordingWriter, StepLine, read_recording
from agentserve.replay.compare.expectations import Expectations, ScreenRule
from agentserve.replay.compare.viewports import viewport_at

FIRST, SMALL, LARGE = (Size(width=w, height=h) for w, h in ((400, 300), (200, 150), (800, 600)))


def resized(tmp_path: Path) -> Recording:
    meta = Meta(
        id="resized",
        created_at=datetime(2026, 1, 2, tzinfo=UTC),
        agentserve_version="0",
        source="person",
        url="http://127.0.0.1/",
        viewport=FIRST,
    )
    writer = RecordingWriter(tmp_path, meta)
    done = [(Resize(size=LARGE), "ok"), (Resize(size=SMALL), "failed"), (Click(x=1, y=1), "ok")]
    for index, (action, status) in enumerate(done):
        outcome = Outcome(status=status)
        writer.append(StepLine(index=index, url="", performed=action, outcome=outcome))
    return read_recording(writer.folder)


def test_a_viewport_is_that_of_the_last_resize(tmp_path: Path) -> None:
    recording = resized(tmp_path)
    assert [viewport_at(recording, index) for index in range(3)] == [FIRST, LARGE, LARGE]


def test_ignored_boxes_are_in_the_px_of_a_resized_viewport(tmp_path: Path) -> None:
    recording = resized(tmp_path)
    one = Image.new("RGB", (800, 600), (255, 255, 255))
    other = one.copy()
    ImageDraw.Draw(other).rectangle((120, 120, 180, 180), (200, 0, 0))
    for edge, same in ((100, False), (200, True)):
        ignored = ScreenRule(ignore=(PageBox(x=0, y=0, width=edge, height=edge),))
        rules = Expectations(screens=ignored)
        found = compare_screens(recording, rules, recording.steps[2], png(one), png(other))
        assert (found == []) is same
