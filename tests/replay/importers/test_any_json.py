"""Whatever JSON is in the files: a bundle that reads comes of it, or an error that says why."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from agentserve.core.errors import RecordingError
from agentserve.replay import read_recording
from agentserve.replay.exporters import osworld as exporter
from agentserve.replay.importers import agentnet, browser_use, osworld
from agentserve.replay.importers.taken import Taken, write_taken

NAMES = [
    "action", "action_type", "parameters", "x", "y", "dx", "dy", "text", "keys", "num_clicks",
    "response", "reward", "done", "info", "Error", "screenshot_file", "command", "instruction",
    "image", "value", "code", "inner_monologue", "thought", "observation",
    "model_output", "result", "state", "metadata", "state_message", "url", "interacted_element",
    "screenshot_path", "screenshot", "attributes", "x_path", "bounds", "width", "height", "ax_name",
    "node_name", "step_start_time", "step_end_time", "click_x", "click_y", "click", "input",
    "scroll", "pages", "index", "coordinate_x", "coordinate_y", "send_keys", "navigate", "success",
    "wait", "seconds", "select_dropdown", "extracted_content", "error", "long_term_memory", "id",
]  # fmt: skip
WORDS = [
    "pyautogui.click(1, 2)", "pyautogui.click(0.5, 0.5)", "pyautogui.scroll(-2)", "WAIT", "DONE",
    "CLICK", "SCROLL", "TYPING", "HOTKEY", "BUTTON", "http://a.test/", "a.png", "Enter", "x" * 3000,
    "é\u2028\x00",
]  # fmt: skip
LEAVES = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.sampled_from([1e308, -0.5, 0.25, 10**30])
    | st.sampled_from(WORDS)
    | st.text(max_size=5)
)
JSON = st.recursive(
    LEAVES,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(NAMES), inner, max_size=5)
    ),
    max_leaves=20,
)
OBJECTS = st.lists(st.dictionaries(st.sampled_from(NAMES), JSON, max_size=6), max_size=3)
ACTS = st.lists(st.dictionaries(st.sampled_from(NAMES), JSON, max_size=2), max_size=3)
ITEMS = st.lists(
    st.fixed_dictionaries(
        {
            "model_output": st.fixed_dictionaries({"action": ACTS}),
            "result": OBJECTS | JSON,
            "state": st.dictionaries(st.sampled_from(NAMES), OBJECTS | JSON, max_size=5),
            "metadata": JSON,
        }
    ),
    max_size=2,
)


def reads_or_refuses(name: str, text: str, take: Callable[[Path], Taken]) -> None:
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place) / "source"
        folder.mkdir()
        (folder / name).write_text(text)
        try:
            recording = read_recording(write_taken(Path(place), "bundle", take(folder)))
        except RecordingError as error:
            assert 0 < len(error.message) < 1000
            return
        with suppress(RecordingError):  # nothing was done in it
            exporter.give(recording)


@settings(deadline=None)
@given(OBJECTS)
def test_osworld(lines):
    text = "".join(json.dumps(line) + "\n" for line in lines)
    reads_or_refuses("traj.jsonl", text, osworld.take)


@settings(deadline=None)
@given(OBJECTS, st.sampled_from(["steps", "traj"]), JSON)
def test_agentnet(steps, field, other):
    text = json.dumps({field: steps, "task_completed": other, "instruction": other})
    reads_or_refuses("task.json", text, agentnet.take)


@settings(deadline=None)
@given(OBJECTS | ITEMS)
def test_browser_use(items):
    reads_or_refuses("history.json", json.dumps({"history": items}), browser_use.take)
