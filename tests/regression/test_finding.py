"""Finding recordings, keeping results of replays, accepting them."""

from __future__ import annotations

import hashlib
import multiprocessing
import shutil
import zipfile
from pathlib import Path
from typing import Any

import pytest
from replay.replay_builders import make_png

from agentserve.core.actions import Click
from agentserve.core.errors import InvalidRequest, RecordingError
from agentserve.regression.accepting import accept_replayed
from agentserve.regression.find import find_recordings, read_found
from agentserve.regression.kept import keep, read_kept
from agentserve.regression.options import ReplayOptions, default_mode
from agentserve.regression.replaying import rules_for
from agentserve.replay import Recording, Replayed, read_recording
from agentserve.replay.bundle.packing import pack
from agentserve.replay.bundle.verify import verify
from agentserve.replay.compare.difference import Difference
from agentserve.replay.compare.expectations import (
    ActionRule,
    Expectations,
    StepExpectation,
    expectations_of,
    save_expectations,
)
from agentserve.replay.modes.reporting import report_of
from agentserve.replay.results import Side, StepReport

BUNDLED = Path(__file__).parents[2] / "scenarios/miniwob/recordings"


@pytest.fixture
def recording(tmp_path: Path) -> Recording:
    shutil.copytree(BUNDLED / "enter-text-0", tmp_path / "gui/own")
    return read_recording(tmp_path / "gui/own")


def test_recordings_are_found_and_named_by_their_place(recording: Recording, tmp_path: Path):
    folder = tmp_path / "gui"
    shutil.copytree(recording.path, folder / "form/deep/two")
    pack(recording.path, folder / "form/one.zip")
    (folder / "node_modules").mkdir()
    shutil.copytree(recording.path, folder / "node_modules/hidden")
    (folder / "again").symlink_to(recording.path)
    found = find_recordings([folder, recording.path])
    assert [one.name for one in found] == ["form/deep/two", "form/one", "own"]
    assert [read_recording(one.path).meta.id for one in found] == [recording.meta.id] * 3
    (alone,) = find_recordings([recording.path])
    assert alone.name == "own"


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("nowhere", "does not exist"),
        ("gui/own/screenshots", "holds none"),
        ("x" * 300, "does not exist"),
    ],
)
def test_what_is_no_recording_is_told(recording: Recording, tmp_path: Path, path: str, words: str):
    with pytest.raises(RecordingError, match=words):
        find_recordings([tmp_path / path])


def test_a_folder_that_cannot_be_looked_into_is_told(
    recording: Recording, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    def refused(path: Path) -> Any:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("agentserve.replay.bundle.below.os.scandir", refused)
    with pytest.raises(RecordingError, match=r"cannot look into .*gui: Permission denied"):
        find_recordings([tmp_path / "gui"])


def test_a_recording_is_found_from_within(recording: Recording, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(recording.path)
    (found,) = find_recordings([Path()])
    assert found.name == "own"


def replayed(recording: Recording) -> Replayed:
    difference = Difference(comparer="action", field="action.point")
    steps = [
        StepReport(
            index=step.index,
            recorded=Side(screenshot=step.screenshot),
            replayed=Side(screenshot=step.screenshot, action=Click(x=step.index, y=9)),
            same=step.index != 1,
            differences=[difference] if step.index == 1 else [],
        )
        for step in recording.steps
    ]
    report = report_of(recording, "browser", steps)
    return Replayed(report, recording, {"a" * 64: b"png"}, {"b" * 64: b"aria"})


def test_results_come_back_as_they_were_kept(recording: Recording, tmp_path: Path):
    result = replayed(recording)
    for _ in range(2):  # the second takes the place of the first
        keep(result, tmp_path / "results")
    (kept,) = read_kept(tmp_path / "results")
    assert kept.report == result.report
    assert (kept.pictures, kept.arias) == (result.pictures, result.arias)
    assert kept.recording.meta == recording.meta


def test_what_is_accepted_is_written_beside_the_recording(recording: Recording, tmp_path: Path):
    with pytest.raises(InvalidRequest, match="no step 9"):
        accept_replayed(replayed(recording), [9])
    assert not recording.entries.has("expect.json")
    untouched = accept_replayed(replayed(recording), [0])
    assert not recording.entries.has("expect.json"), "step 0 does not differ"
    assert untouched.report == replayed(recording).report
    left = accept_replayed(replayed(recording))
    assert left.report.same and left.report.totals.different == 0
    assert left.report.notes[-1] == "accepted from now on: 1 action"
    (step,) = expectations_of(recording).steps
    assert (step.index, step.accepted_actions[0].action) == (1, Click(x=1, y=9))
    archive = tmp_path / "one.zip"
    pack(recording.path, archive)
    packed = replayed(read_recording(archive))
    with pytest.raises(RecordingError, match="zip"):
        accept_replayed(packed)


def seen(recording: Recording, pictures: list[bytes]) -> Replayed:
    """A replay whose steps, but for the first, show other screens."""
    shas = [hashlib.sha256(picture).hexdigest() for picture in pictures]
    steps = [
        StepReport(
            index=step.index,
            recorded=Side(screenshot=step.screenshot),
            replayed=Side(screenshot=sha),
            same=False,
            differences=[Difference(comparer="screen", field="screen")],
        )
        for step, sha in zip(recording.steps[1:], shas, strict=False)
    ]
    report = report_of(recording, "browser", steps)
    return Replayed(report, recording, dict(zip(shas, pictures, strict=True)))


def test_what_an_update_takes_the_place_of_leaves_no_file_behind(recording: Recording):
    """A screen that another step still names stays, one that was recorded always does."""
    recorded = {path.name for path in (recording.path / "screenshots").iterdir()}
    one, other, third = (make_png(grey) for grey in (1, 2, 3))
    names = {hashlib.sha256(png).hexdigest() for png in (one, other, third)}
    assert len(names) == 3

    def added() -> set[str]:
        now = {path.name for path in (recording.path / "screenshots").iterdir()}
        assert recorded <= now
        assert [f for f in verify(recording.path) if "no step names it" in f.message] == []
        return {name.partition(".")[0] for name in now - recorded}

    def sha(png: bytes) -> str:
        return hashlib.sha256(png).hexdigest()

    accept_replayed(seen(recording, [one, one]))
    assert added() == {sha(one)}
    accept_replayed(seen(recording, [other, other]), [1])
    assert added() == {sha(one), sha(other)}, "the other step still names it"
    left = accept_replayed(seen(recording, [third, third]))
    assert added() == {sha(third)}
    assert left.pictures[sha(one)] == one, "the page of the replay shows what it was compared with"
    accept_replayed(seen(recording, [one]), also=True)
    assert added() == {sha(third), sha(one)}


def test_a_tolerance_goes_over_what_the_recording_expects(recording: Recording):
    assert default_mode(recording) == "model"
    assert rules_for(recording, ReplayOptions("model")).actions.tolerance_px == 12
    rules = rules_for(recording, ReplayOptions("model", tolerance_px=3))
    assert rules.actions.tolerance_px == 3
    own = StepExpectation(index=1, actions=ActionRule(tolerance_px=50, same_element=False))
    texts = StepExpectation(index=2, actions=ActionRule(same_element=False))
    save_expectations(recording.path, Expectations(steps=(own, texts)))
    rules = rules_for(recording, ReplayOptions("model", tolerance_px=3))
    assert [rules.at(index).actions.tolerance_px for index in range(3)] == [3, 3, 3]
    assert rules.at(1).actions.same_element is False
    assert rules.own(2) == texts, "what it does not say is not said now"


def accept_one(folder: Path, index: int, together: Any) -> None:
    recording = read_recording(folder)
    difference = Difference(comparer="action", field="action.point")
    step = StepReport(
        index=index,
        recorded=Side(),
        replayed=Side(action=Click(x=index, y=9)),
        same=False,
        differences=[difference],
    )
    report = report_of(recording, "browser", [step])
    together.wait()
    accept_replayed(Replayed(report, recording))


def test_processes_that_accept_at_once_lose_nothing(recording: Recording):
    spawn = multiprocessing.get_context("fork")
    for _ in range(6):
        together = spawn.Barrier(3)
        processes = [
            spawn.Process(target=accept_one, args=(recording.path, index, together))
            for index in range(3)
        ]
        for process in processes:
            process.start()
        for process in processes:
            process.join(60)
        assert [step.index for step in expectations_of(recording).steps] == [0, 1, 2]
        (recording.path / "expect.json").unlink()


def test_no_two_recordings_have_one_name(recording: Recording, tmp_path: Path):
    folder = tmp_path / "gui"
    for name in ("d/x/click", "d/y/click", "e/y/click", "e/rec"):
        shutil.copytree(recording.path, folder / name)
    pack(recording.path, folder / "e/rec.zip")
    named = [folder / name for name in ("d/x", "d/y", "e/y", "e/rec", "e/rec.zip", "own")]
    found = find_recordings(named)
    assert [one.name for one in found] == [
        "x/click", "d/y/click", "e/y/click", "e/rec", "e/rec.zip", "own",
    ]  # fmt: skip
    again = find_recordings([folder / "d", folder / "e"])
    assert [one.name for one in again] == [
        "x/click", "d/y/click", "e/rec", "e/rec.zip", "e/y/click",
    ]  # fmt: skip


def test_a_zip_of_something_else_is_no_recording(recording: Recording, tmp_path: Path):
    folder = tmp_path / "gui"
    with zipfile.ZipFile(folder / "trace.zip", "w") as archive:
        archive.writestr("trace.trace", "{}")
        archive.writestr("resources/deep/meta.json", "{}")
    (folder / "damaged.zip").write_bytes(b"no zip")
    pack(recording.path, folder / "packed.zip")
    with zipfile.ZipFile(folder / "inside.zip", "w") as archive:
        archive.writestr("own/meta.json", "{}")
    found = find_recordings([folder])
    assert [one.name for one in found] == ["damaged", "inside", "own", "packed"]
    with pytest.raises(RecordingError, match=r"trace.zip is no recording"):
        find_recordings([folder / "trace.zip"])
    result = read_found(found)
    assert [one.name for one in result.read] == ["own", "packed"]
    assert set(result.unread) == {"damaged", "inside"}
