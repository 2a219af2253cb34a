import hashlib
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from replay.replay_builders import DONE, make_png, make_steps, record

from agentserve.core.errors import RecordingError
from agentserve.replay import Recording, read_recording
from agentserve.replay.bundle.format import MAX_LINES, META, STEPS

SHA = "[0-9a-f]{64}"


def meta_with(**update: Any) -> Callable[[Path], None]:
    def damage(folder: Path) -> None:
        values = json.loads((folder / META).read_text())
        values.update(update)
        (folder / META).write_text(json.dumps(values))

    return damage


def step_with(change: Callable[[dict[str, Any]], None], line: int = 2) -> Callable[[Path], None]:
    """Change the JSON of one line (counted from 1)."""

    def damage(folder: Path) -> None:
        lines = (folder / STEPS).read_text().splitlines()
        values = json.loads(lines[line - 1])
        change(values)
        lines[line - 1] = json.dumps(values)
        (folder / STEPS).write_text("\n".join(lines) + "\n")

    return damage


def lines_with(change: Callable[[list[bytes]], None]) -> Callable[[Path], None]:
    def damage(folder: Path) -> None:
        lines = (folder / STEPS).read_bytes().splitlines()
        change(lines)
        (folder / STEPS).write_bytes(b"\n".join(lines) + b"\n")

    return damage


def replaced(entry: str, data: bytes) -> Callable[[Path], None]:
    return lambda folder: None if (folder / entry).write_bytes(data) else None


def removed(entry: str) -> Callable[[Path], None]:
    return lambda folder: (folder / entry).unlink()


def linked(entry: str) -> Callable[[Path], None]:
    """Move an entry out of the folder and leave a symbolic link to it."""

    def damage(folder: Path) -> None:
        outside = folder.parent / "outside"
        (folder / entry).rename(outside)
        (folder / entry).symlink_to(outside)

    return damage


def grown(entry: str, size: int) -> Callable[[Path], None]:
    """A sparse file of that size: refusing it must not need its bytes."""
    return lambda folder: os.truncate(folder / entry, size)


def screenshot_that(change: Callable[[Path], None]) -> Callable[[Path], None]:
    """Change the file of the first step's screenshot."""

    def damage(folder: Path) -> None:
        sha = json.loads((folder / STEPS).read_text().splitlines()[0])["screenshot"]
        change(folder / "screenshots" / f"{sha}.png")

    return damage


def as_pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def as_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


def as_link(path: Path) -> None:
    path.rename(path.with_name("elsewhere.png"))
    path.symlink_to("elsewhere.png")


def other_schema(version: int) -> str:
    return rf"meta\.json: schema version {version}, this agentserve reads 2"


DAMAGES: dict[str, tuple[Callable[[Path], None], str]] = {
    "no meta": (removed(META), r"meta\.json is missing"),
    "no steps": (removed(STEPS), r"steps\.jsonl is missing"),
    "empty meta": (replaced(META, b""), r"meta\.json: not JSON"),
    "meta cut off": (replaced(META, b'{"schema_version": 2,'), r"meta\.json: not JSON"),
    "meta not an object": (replaced(META, b"[1]"), r"meta\.json: "),
    "meta nested too deep": (replaced(META, b"[" * 100_000), r"meta\.json: not JSON"),
    "meta not UTF-8": (replaced(META, b'{"id": "\xff\xfe"}'), r"meta\.json: not JSON"),
    "newer schema": (meta_with(schema_version=3, new_field=1), other_schema(3)),
    "older schema": (meta_with(schema_version=1), other_schema(1)),
    "schema as text": (meta_with(schema_version="2"), r"meta\.json: 'schema_version'"),
    "unknown field in meta": (meta_with(extra="x"), r"meta\.json: 'extra': Extra inputs"),
    "id that is a path": (meta_with(id="../../etc"), r"meta\.json: 'id'"),
    "time without zone": (meta_with(created_at="2025-01-01T00:00:00"), r"meta\.json: 'created_at'"),
    "session without task": (meta_with(session={"program": "p"}), r"meta\.json: 'session\."),
    "meta is a link": (linked(META), r"meta\.json cannot be opened"),
    "meta too large": (grown(META, 10**9), r"meta\.json is larger than 1048576 bytes"),
    "steps are a link": (linked(STEPS), r"steps\.jsonl cannot be opened"),
    "steps too large": (grown(STEPS, 10**11), r"steps\.jsonl is larger than"),
    "too many lines": (replaced(STEPS, b"{}\n" * (MAX_LINES + 1)), r"steps\.jsonl: more than"),
    "garbled line": (
        lines_with(lambda lines: lines.__setitem__(1, lines[1][:-9])),
        r"steps\.jsonl line 2: ",
    ),
    "binary line": (
        lines_with(lambda lines: lines.__setitem__(0, b"\x00\xff")),
        r"steps\.jsonl line 1: ",
    ),
    "empty line": (lines_with(lambda lines: lines.insert(1, b"")), r"steps\.jsonl line 2: "),
    "line nested too deep": (
        lines_with(lambda lines: lines.__setitem__(1, b'{"type":' * 50_000)),
        r"steps\.jsonl line 2: ",
    ),
    "line too long": (
        step_with(lambda step: step["result"].update(text="x" * 1_100_000)),
        r"steps\.jsonl line 2: longer than",
    ),
    "unknown type": (step_with(lambda step: step.update(type="note")), r"steps\.jsonl line 2: "),
    "unknown field": (
        step_with(lambda step: step["result"].update(mood="fine")),
        r"steps\.jsonl line 2: 'step\.result\.mood': Extra inputs",
    ),
    "missing field": (
        step_with(lambda step: step.pop("url")),
        r"steps\.jsonl line 2: 'step\.url': Field required",
    ),
    "text for a number": (
        step_with(lambda step: step.update(index="1")),
        r"steps\.jsonl line 2: 'step\.index'",
    ),
    "not a number": (
        step_with(lambda step: step.update(step_ms=float("nan"))),
        r"steps\.jsonl line 2: 'step\.step_ms'",
    ),
    "unknown action": (
        step_with(lambda step: step["performed"].update(kind="explode")),
        r"steps\.jsonl line 2: 'step\.performed'",
    ),
    "screenshot that is a path": (
        step_with(lambda step: step.update(screenshot="../../../../etc/passwd")),
        r"steps\.jsonl line 2: 'step\.screenshot'",
    ),
    "hash with a newline": (
        step_with(lambda step: step.update(screenshot=step["screenshot"] + "\n")),
        r"steps\.jsonl line 2: 'step\.screenshot'",
    ),
    "step missing": (
        lines_with(lambda lines: lines.pop(1)),
        r"steps\.jsonl line 2: step 2 where step 1",
    ),
    "step twice": (
        lines_with(lambda lines: lines.insert(1, lines[0])),
        r"steps\.jsonl line 2: step 0 where step 1",
    ),
    "line behind the end": (
        lines_with(lambda lines: lines.append(lines[-1])),
        r"steps\.jsonl line 5: there is a line behind the end",
    ),
    "no screenshots": (
        lambda folder: shutil.rmtree(folder / "screenshots"),
        rf"screenshots/{SHA}\.png is missing",
    ),
    "screenshots are a link": (linked("screenshots"), rf"screenshots/{SHA}\.png cannot be opened"),
    "screenshot missing": (screenshot_that(Path.unlink), rf"screenshots/{SHA}\.png is missing"),
    "screenshot is a link": (
        screenshot_that(as_link),
        rf"screenshots/{SHA}\.png cannot be opened: .*symbolic",
    ),
    "screenshot is a pipe": (
        screenshot_that(as_pipe),
        rf"screenshots/{SHA}\.png is not a regular file",
    ),
    "screenshot is a folder": (
        screenshot_that(as_folder),
        rf"screenshots/{SHA}\.png is not a regular file",
    ),
    "screenshot too large": (
        screenshot_that(lambda path: os.truncate(path, 10**10)),
        rf"screenshots/{SHA}\.png is larger than",
    ),
}


@pytest.mark.parametrize("name", DAMAGES)
def test_damage_is_refused_by_the_entry_s_name(recording: Recording, name: str):
    damage, message = DAMAGES[name]
    damage(recording.path)
    with pytest.raises(RecordingError, match=f"^clean: {message}"):
        read_recording(recording.path)


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
