import hashlib
import json
import os
from pathlib import Path

import pytest
from replay.importers.folders import OSWORLD, SCREEN, osworld_line, write_osworld
from replay.replay_builders import make_png

from agentserve.core.actions import Click, Done, DoubleClick, Drag, Key, Type, Wait
from agentserve.core.actions.recorded import Unsupported
from agentserve.core.errors import RecordingError
from agentserve.core.screens import Size
from agentserve.replay import read_recording
from agentserve.replay.importers import osworld
from agentserve.replay.importers.sources import MAX_DEPTH
from agentserve.replay.importers.taken import write_taken


def sha(shade: int) -> str:
    return hashlib.sha256(make_png(shade, SCREEN)).hexdigest()


def test_steps_look_at_the_picture_taken_after_the_one_before(tmp_path):
    taken = osworld.take(write_osworld(tmp_path / "run"))
    assert taken.viewport == Size(width=320, height=200)
    steps = taken.steps
    assert [step.index for step in steps] == list(range(10))
    assert [step.performed for step in steps] == [
        Click(x=160, y=100),
        Drag(x=10, y=20, to_x=30, to_y=40),
        Type(text="é"),
        Key(keys="Enter"),
        Wait(seconds=1),
        Unsupported(what='pyautogui.mouseDown {"values": []}'),
        DoubleClick(x=5, y=6),
        Wait(seconds=1),
        Done(),
        None,
    ]
    seen = [step.screenshot for step in steps]
    assert seen == [None, sha(0), sha(1), None, None, sha(2), sha(3), sha(4), sha(5), sha(6)]
    assert steps[0].thought == "Thought 1" and steps[3].thought == ""
    assert taken.end is not None
    assert (taken.end.end, taken.end.reward, taken.end.success) == ("done", 0.5, False)


def test_what_cannot_be_represented_is_said(tmp_path):
    folder = write_osworld(tmp_path / "run")
    (folder / "recording.mp4").write_bytes(b"film")
    (folder / OSWORLD[1]["screenshot_file"]).unlink()
    lost = "\n".join(osworld.take(folder).lost)
    assert 'step 5: pyautogui.mouseDown {"values": []} has no equal' in lost
    assert "'recording.mp4' is not taken over" in lost
    assert "traj.jsonl line 2: the picture 'step_2_" in lost
    assert "whole desktop" in lost


def test_text_that_is_no_action_is_kept_and_said(tmp_path):
    lines = [osworld_line(1, "os.remove('/')"), osworld_line(2, "FAIL")]
    taken = osworld.take(write_osworld(tmp_path / "run", lines, result="0.0"))
    assert taken.steps[0].performed == Unsupported(what="os.remove('/')")
    assert any(
        one.startswith("step 0: \"os.remove('/')\" was not understood") for one in taken.lost
    )
    assert taken.end is not None and taken.end.end == "gave_up"


def test_the_pointer_is_known_from_line_to_line(tmp_path):
    lines = [osworld_line(1, "pyautogui.moveTo(7, 8)"), osworld_line(2, "pyautogui.click()")]
    taken = osworld.take(write_osworld(tmp_path / "run", lines))
    assert taken.steps[1].performed == Click(x=7, y=8)


COMPUTER_13 = {
    "MOVE_TO": ({"x": 1, "y": 2}, "hover 1 2"),
    "CLICK": ({"x": 1, "y": 2, "button": "right"}, "click 1 2 right"),
    "DOUBLE_CLICK": ({"x": 1, "y": 2}, "double_click 1 2"),
    "TYPING": ({"text": "a"}, 'type "a"'),
    "PRESS": ({"key": "enter"}, "key Enter"),
    "HOTKEY": ({"keys": ["ctrl", "a"]}, "key Control+a"),
    "SCROLL": ({"dx": 0, "dy": -2}, "scroll 160 100 0 200"),
    "KEY_DOWN": ({"key": "shift"}, 'key_down "Shift"'),
    "WAIT": ({}, "wait 1"),
    "DONE": ({}, "done success"),
    "FAIL": ({}, "done failure"),
    "MOUSE_UP": ({"button": "left"}, "unsupported"),
    "FLY": ({}, "unsupported"),
}


@pytest.mark.parametrize("kind", COMPUTER_13)
def test_computer_13(tmp_path, kind):
    from agentserve.core.actions.recorded import describe

    parameters, words = COMPUTER_13[kind]
    line = osworld_line(1, {"action_type": kind, "parameters": parameters})
    taken = osworld.take(write_osworld(tmp_path / "run", [line]))
    action = taken.steps[0].performed
    assert action.kind == words if words == "unsupported" else describe(action) == words


def test_a_line_of_an_error_is_a_failed_step(tmp_path):
    lines = [osworld_line(1, "WAIT"), {"Error": "Time limit exceeded in chrome/1"}]
    step = osworld.take(write_osworld(tmp_path / "run", lines)).steps[1]
    assert (step.performed, step.outcome.status) == (None, "failed")
    assert "Time limit" in step.outcome.message


def test_it_becomes_a_bundle_that_reads(tmp_path):
    taken = osworld.take(write_osworld(tmp_path / "run"))
    recording = read_recording(write_taken(tmp_path, "bundle", taken))
    assert [step.performed for step in recording.steps] == [one.performed for one in taken.steps]
    assert recording.meta.source == "import"
    assert recording.meta.imported and recording.meta.imported.lost == list(taken.lost)
    assert recording.screenshot(sha(6)) == make_png(6, SCREEN)


def linked(folder: Path) -> None:
    picture = folder / OSWORLD[0]["screenshot_file"]
    picture.unlink()
    picture.symlink_to("/etc/passwd")


def line_with(**update) -> bytes:
    return json.dumps(osworld_line(1, "WAIT", **update)).encode()


HOSTILE = {
    "no-trajectory": (lambda f: (f / "traj.jsonl").unlink(), "traj.jsonl is missing"),
    "empty": (lambda f: (f / "traj.jsonl").write_bytes(b"\n\n"), "no step"),
    "not-json": (lambda f: (f / "traj.jsonl").write_bytes(b"{"), "line 1: not JSON"),
    "not-an-object": (lambda f: (f / "traj.jsonl").write_bytes(b"[1]"), "line 1: a JSON object"),
    "not-utf8": (lambda f: (f / "traj.jsonl").write_bytes(b'{"a": "\xff"}'), "line 1: not JSON"),
    "nan": (lambda f: (f / "traj.jsonl").write_bytes(b'{"reward": NaN}'), "line 1: not JSON"),
    "deep": (
        lambda f: (f / "traj.jsonl").write_bytes(b'{"a":' + b"[" * 60 + b"]" * 60 + b"}"),
        f"deeper than {MAX_DEPTH}",
    ),
    "very-deep": (lambda f: (f / "traj.jsonl").write_bytes(b"[" * 400_000), "line 1: not JSON"),
    "wide": (lambda f: (f / "traj.jsonl").write_bytes(b"[],\n" * 500_000), "too many values"),
    "many-lines": (lambda f: (f / "traj.jsonl").write_bytes(b"{}\n" * 5002), "more than 5000"),
    "large": (lambda f: os.truncate(f / "traj.jsonl", 2**40), "traj.jsonl is larger"),
    "link": (linked, "step_1_20250601@120001.png cannot be opened"),
    "linked-trajectory": (
        lambda f: (f / "traj.jsonl").rename(f / "x") and (f / "traj.jsonl").symlink_to(f / "x"),
        "traj.jsonl cannot be opened",
    ),
    "path": (
        lambda f: (f / "traj.jsonl").write_bytes(line_with(screenshot_file="../secret.png")),
        "line 1: '../secret.png' is not the plain name",
    ),
    "absolute": (
        lambda f: (f / "traj.jsonl").write_bytes(line_with(screenshot_file="/etc/passwd")),
        "is not the plain name",
    ),
    "dots": (
        lambda f: (f / "traj.jsonl").write_bytes(line_with(screenshot_file="..")),
        "is not the plain name",
    ),
    "null-byte": (
        lambda f: (f / "traj.jsonl").write_bytes(line_with(screenshot_file="a\0.png")),
        "is not the plain name",
    ),
    "number": (
        lambda f: (f / "traj.jsonl").write_bytes(line_with(screenshot_file=5)),
        "is not the plain name",
    ),
    "no-picture": (
        lambda f: (f / OSWORLD[0]["screenshot_file"]).write_bytes(b"MZ"),
        "not a PNG, JPEG or WebP",
    ),
    "large-picture": (
        lambda f: os.truncate(f / OSWORLD[0]["screenshot_file"], 2**30),
        "step_1_20250601@120001.png is larger",
    ),
    "folder": (
        lambda f: (f / "result.txt").unlink() or (f / "result.txt").mkdir(),
        "result.txt is not a regular file",
    ),
    "result": (lambda f: (f / "result.txt").write_text("fine"), "no number"),
    "result-nan": (lambda f: (f / "result.txt").write_text("nan"), "is no result"),
    "result-bytes": (lambda f: (f / "result.txt").write_bytes(b"\xff"), "not UTF-8"),
    "result-large": (lambda f: (f / "result.txt").write_text("1" * 5000), "is larger"),
}


@pytest.mark.parametrize(("damage", "words"), HOSTILE.values(), ids=HOSTILE)
def test_a_hostile_folder_is_refused_by_name(tmp_path, damage, words):
    folder = write_osworld(tmp_path / "run")
    damage(folder)
    with pytest.raises(RecordingError, match=words):
        osworld.take(folder)


def test_all_pictures_together_have_a_limit(tmp_path, monkeypatch):
    monkeypatch.setattr("agentserve.replay.importers.sources.MAX_PICTURES_BYTES", 1000)
    with pytest.raises(RecordingError, match="over 1000 bytes"):
        osworld.take(write_osworld(tmp_path / "run"))


def test_what_has_no_equal_or_is_cut_is_told(tmp_path):
    down = {"action_type": "MOUSE_DOWN", "parameters": {}}
    hotkey = {"action_type": "HOTKEY", "parameters": {"keys": 1.5}}
    lines = [
        osworld_line(1, down, instruction="x" * 8001),
        osworld_line(2, hotkey, Error="y" * 2001),
    ]
    lost = "\n".join(osworld.take(write_osworld(tmp_path / "run", lines)).lost)
    assert "step 0: mouseDown" in lost and "has no equal" in lost
    assert "step 1: the action 'HOTKEY' was not understood: keys must be a list of texts" in lost
    assert "the task has 8001 characters, 8000 are kept" in lost
    assert "step 1: its error has 2001 characters, 2000 are kept" in lost
