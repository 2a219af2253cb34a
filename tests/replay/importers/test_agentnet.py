import hashlib
import json

import pytest
from replay.importers.folders import (
    AGENTNET_BENCHMARK,
    AGENTNET_TRAINING,
    SCREEN,
    write_agentnet,
)
from replay.replay_builders import make_png

from agentserve.core.actions import Click, Done, Key, Scroll, Type
from agentserve.core.actions.recorded import Unsupported
from agentserve.core.errors import RecordingError
from agentserve.replay import read_recording
from agentserve.replay.importers import agentnet
from agentserve.replay.importers.taken import write_taken

FIRST, SECOND = (hashlib.sha256(make_png(n, SCREEN)).hexdigest() for n in range(2))


@pytest.mark.parametrize("images", ["", "images"])
def test_a_task_of_the_benchmark(tmp_path, images):
    folder = write_agentnet(tmp_path / "task", AGENTNET_BENCHMARK, images)
    taken = agentnet.take(folder)
    assert [step.performed for step in taken.steps] == [
        Click(x=160, y=50),
        Key(keys="Control+f"),
        Type(text="lang"),
        Unsupported(
            what="computer.triple_click of 3 clicks "
            '{"x": 0.1, "y": 0.1, "clicks": 3, "button": "left"}'
        ),
        Done(),
    ]
    assert [step.screenshot for step in taken.steps] == [FIRST, SECOND, None, SECOND, SECOND]
    assert taken.steps[0].thought == "A browser.\n\nThe menu is there.\n\nClick the menu."
    assert taken.task == "Open the settings of the browser."
    assert taken.end is not None and (taken.end.end, taken.end.success) == ("done", None)
    assert any("step 3: computer.triple_click of 3 clicks" in sentence for sentence in taken.lost)
    origins = [step.origin["step"] for step in taken.steps if "step" in step.origin]
    assert {**taken.data, "steps": origins} == AGENTNET_BENCHMARK
    assert agentnet.take(folder / "task.json") == taken


def test_a_task_of_the_training_data(tmp_path):
    taken = agentnet.take(write_agentnet(tmp_path / "task", AGENTNET_TRAINING))
    assert taken.steps[0].performed == Unsupported(what="pyautogui.press('volumemute')")
    assert taken.steps[1].performed == Scroll(x=160, y=100, dy=300)
    assert taken.steps[0].thought == "A desktop.\n\nPress the key.\n\nPress mute."
    assert taken.end is not None and taken.end.success is False
    recording = read_recording(write_taken(tmp_path, "bundle", taken))
    assert recording.meta.task == "Mute the sound."
    assert recording.meta.imported and recording.meta.imported.data == taken.data


def test_a_missing_picture_is_a_loss(tmp_path):
    folder = write_agentnet(tmp_path / "task", AGENTNET_BENCHMARK)
    (folder / "second.png").unlink()
    taken = agentnet.take(folder)
    assert taken.steps[1].screenshot is None
    assert "task.json step 1: the picture 'second.png' is missing" in taken.lost


def test_pictures_of_several_sizes_are_said(tmp_path):
    folder = write_agentnet(tmp_path / "task", AGENTNET_BENCHMARK)
    (folder / "second.png").write_bytes(make_png(1, (100, 100)))
    lost = agentnet.take(folder).lost
    assert "picture 2 has 100x100 px, the first one 320x200" in lost


def test_data_too_large_to_be_kept_are_said(tmp_path):
    task = {**AGENTNET_BENCHMARK, "padding": [[1]] * 20_000}
    task["steps"] = [{**AGENTNET_BENCHMARK["steps"][0], "more": "x" * 300_000}]
    taken = agentnet.take(write_agentnet(tmp_path / "task", task))
    assert taken.data is None and taken.steps[0].origin is None
    assert sum("too large to be kept" in one for one in taken.lost) == 2
    read_recording(write_taken(tmp_path, "bundle", taken))


@pytest.mark.parametrize(
    ("task", "words"),
    [
        ([], "a JSON object is expected"),
        ({}, "there are no steps"),
        ({"steps": [1]}, "step 0: a JSON object"),
        ({"steps": [{}] * 5001}, "5000 is most"),
        ({"steps": [{"image": "a/b.png"}]}, "not the plain name"),
        ({"steps": [{"image": "a\\b.png"}]}, "not the plain name"),
        ({"steps": [{"image": {"path": "x"}}]}, "not the plain name"),
    ],
)
def test_a_hostile_task_is_refused(tmp_path, task, words):
    with pytest.raises(RecordingError, match=words):
        agentnet.take(write_agentnet(tmp_path / "task", task))


def test_a_folder_must_say_which_file(tmp_path):
    folder = write_agentnet(tmp_path / "task", AGENTNET_BENCHMARK)
    (folder / "other.json").write_text(json.dumps(AGENTNET_TRAINING))
    with pytest.raises(RecordingError, match="2 JSON files"):
        agentnet.take(folder)
    assert agentnet.take(folder / "other.json").task == "Mute the sound."


def test_what_is_cut_and_what_pauses_longer_is_told(tmp_path):
    task = {
        "task_id": "t",
        "instruction": "x" * 8001,
        "traj": [
            {"value": {"code": "time.sleep(0.5)\ntime.sleep(2.0)"}},
            {"value": {"code": f"computer.terminate(status='success', answer='{'y' * 2001}')"}},
        ],
    }
    (tmp_path / "task.json").write_text(json.dumps(task))
    taken = agentnet.take(tmp_path / "task.json")
    assert len(taken.task) == 8000
    assert set(taken.lost) >= {
        "the task has 8001 characters, 8000 are kept",
        "step 0: a pause of 0.5 s became one of whole seconds",
        "step 2: of what it says at its end, 2000 characters are kept",
    }
    assert len([sentence for sentence in taken.lost if "a pause" in sentence]) == 1
