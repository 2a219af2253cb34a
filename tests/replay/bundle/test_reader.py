import hashlib
import os
from pathlib import Path

import pytest
from replay.bundle.corpus import READ_DAMAGES, step_with
from replay.replay_builders import DONE, make_png, make_steps, record

from agentserve.core.config import MIB
from agentserve.core.errors import RecordingError
from agentserve.replay import Recording, read_recording
from agentserve.replay.bundle.format import STEPS


@pytest.mark.parametrize("name", READ_DAMAGES)
def test_damage_is_refused_by_the_entry_s_name(recording: Recording, name: str):
    damage, message = READ_DAMAGES[name]
    damage(recording.path)
    with pytest.raises(RecordingError, match=f"^clean: {message}"):
        read_recording(recording.path)


def test_a_small_file_takes_no_room_for_the_largest(
    recording: Recording, monkeypatch: pytest.MonkeyPatch
):
    """os.read makes room for all that it is asked for."""
    asked: list[int] = []
    read = os.read

    def noted(descriptor: int, count: int) -> bytes:
        asked.append(count)
        return read(descriptor, count)

    monkeypatch.setattr("agentserve.replay.bundle.folder.os.read", noted)
    whole = (recording.path / STEPS).read_bytes()
    assert recording.entries.read(STEPS, 10**10) == whole
    assert max(asked) <= MIB
    with pytest.raises(RecordingError, match="larger than"):
        recording.entries.read(STEPS, len(whole) - 1)


@pytest.mark.parametrize("data", [b"", make_png(77)], ids=["emptied", "another picture"])
def test_a_screenshot_must_have_its_hash(recording: Recording, data: bytes):
    sha = recording.steps[1].screenshot
    (recording.path / "screenshots" / f"{sha}.png").write_bytes(data)
    with pytest.raises(
        RecordingError, match=rf"^clean: screenshots/{sha}\.png: its bytes do not have the hash"
    ):
        read_recording(recording.path).screenshot(sha)
    assert recording.screenshot(recording.steps[0].screenshot) == make_png(0)


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"<svg/>" * 10, "not a PNG"),
        (make_png()[:20], "not a PNG: too short"),
        (make_png()[:16] + b"\0\1\0\0" * 2 + make_png()[24:], "a picture of 65536x65536 px"),
    ],
    ids=["svg", "cut off", "bomb"],
)
def test_a_screenshot_must_be_a_png_of_a_sane_size(recording: Recording, data: bytes, reason: str):
    sha = hashlib.sha256(data).hexdigest()
    (recording.path / "screenshots" / f"{sha}.png").write_bytes(data)
    step_with(lambda step: step.update(screenshot=sha))(recording.path)
    again = read_recording(recording.path)
    with pytest.raises(RecordingError, match=rf"^clean: screenshots/{sha}\.png: {reason}"):
        again.screenshot(again.steps[1].screenshot)


def test_a_recording_without_its_folder_is_refused(tmp_path: Path):
    with pytest.raises(RecordingError, match="^nothing: there is no such folder or file"):
        read_recording(tmp_path / "nothing")
    with pytest.raises(RecordingError, match="^x+: there is no such folder or file"):
        read_recording(tmp_path / ("x" * 300))


def test_names_from_the_file_are_cut_and_quoted_in_messages(recording: Recording):
    step_with(lambda step: step.update({"\x1b[2J" + "k" * 5000: 1}))(recording.path)
    with pytest.raises(RecordingError) as caught:
        read_recording(recording.path)
    assert "\x1b" not in caught.value.message
    assert len(caught.value.message) < 400


async def test_cut_off_anywhere_it_is_read_up_to_the_last_whole_step(tmp_path: Path):
    """The end of a write may be lost anywhere; the steps before it never are."""
    recorder = await record(tmp_path, make_steps(3), end=DONE)
    data = (recorder.folder / STEPS).read_bytes()
    starts = [0]
    for line in data.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    near = {start + by for start in starts[1:-1] for by in (-2, -1, 0, 1)}
    for cut in sorted({*range(starts[2], len(data), 7), *near}):
        (recorder.folder / STEPS).write_bytes(data[:cut])
        recording = read_recording(recorder.folder)
        # a line whose newline alone is missing is whole
        lines = sum(cut >= start - 1 for start in starts[1:])
        assert len(recording.steps) == min(lines, 3), cut
        assert recording.complete == (lines == 4), cut


async def test_a_tail_of_zeros_counts_as_cut_off(tmp_path: Path):
    """What a file system may leave of an append when the machine stops."""
    recorder = await record(tmp_path, make_steps(2))
    with (recorder.folder / STEPS).open("ab") as file:
        file.write(b"\0" * 900)
    recording = read_recording(recorder.folder)
    assert (len(recording.steps), recording.complete) == (2, False)


async def test_files_beside_the_bundle_are_left_alone(recording: Recording):
    (recording.path / "notes.md").write_text("mine")
    (recording.path / "screenshots" / ".half.png.0123").write_bytes(b"half")
    assert read_recording(recording.path).steps == recording.steps


async def test_the_folder_itself_may_be_reached_by_a_link(recording: Recording, tmp_path: Path):
    """Which path a user names is theirs to say; only names inside of it are not followed."""
    (tmp_path / "latest").symlink_to(recording.path)
    assert read_recording(tmp_path / "latest").meta == recording.meta
