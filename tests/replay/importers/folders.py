"""Small folders of other tools' recordings, as their published schemas say."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from replay.replay_builders import make_png

SCREEN = (320, 200)


def osworld_line(number: int, action: Any, **update: Any) -> dict[str, Any]:
    """One line of traj.jsonl, as lib_run_single.py writes it."""
    fields = {
        "step_num": number,
        "action_timestamp": f"20250601@12000{number}",
        "action": action,
        "response": f"Thought {number}",
        "reward": 0,
        "done": action in ("DONE", "FAIL"),
        "info": {},
        "screenshot_file": f"step_{number}_20250601@12000{number}.png",
    }
    return {**fields, **update}


OSWORLD = [
    osworld_line(1, "pyautogui.click(x=160, y=100)"),
    osworld_line(2, "pyautogui.moveTo(10, 20)\npyautogui.dragTo(30, 40, button='left')"),
    osworld_line(3, "pyautogui.write('é')\npyautogui.press('enter')\ntime.sleep(0.5)"),
    osworld_line(4, "pyautogui.mouseDown()"),
    osworld_line(5, {"action_type": "CLICK", "parameters": {"x": 5, "y": 6, "num_clicks": 2}}),
    osworld_line(6, "WAIT", response=[{"text": "kept as it is"}]),
    osworld_line(7, "DONE", info={"done": True}, reward=0.5),
]


def write_osworld(folder: Path, lines: list[Any] | None = None, result: str = "0.5\n") -> Path:
    """A folder as OSWorld leaves it, each picture of another colour."""
    lines = OSWORLD if lines is None else lines
    folder.mkdir(parents=True)
    (folder / "traj.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    (folder / "result.txt").write_text(result)
    for shade, line in enumerate(lines):
        if isinstance(line, dict) and line.get("screenshot_file"):
            (folder / line["screenshot_file"]).write_bytes(make_png(shade, SCREEN))
    return folder


AGENTNET_BENCHMARK = {
    "task_id": "20240926_1",
    "high_level_task_description": "Open the settings of the browser.",
    "steps": [
        {
            "step_num": 0,
            "image": "first.png",
            "action": "pyautogui.click(x=0.5, y=0.25)",
            "milestone": True,
            "inner_monologue": {
                "observation": "A browser.",
                "thought": "The menu is there.",
                "low_level_instruction": "Click the menu.",
            },
            "ground_truth_actions": [
                {"type": "click", "params": {"position": {"x": 0.5, "y": 0.25}}}
            ],
        },
        {
            "step_num": 1,
            "image": "second.png",
            "action": "pyautogui.hotkey(['ctrl', 'f'])\npyautogui.write('lang')",
            "inner_monologue": {"thought": "Search."},
        },
        {"step_num": 2, "image": "second.png", "action": "computer.triple_click(x=0.1, y=0.1)"},
        {
            "step_num": 3,
            "image": "second.png",
            "action": "computer.terminate(status='success')",
        },
    ],
}
AGENTNET_TRAINING = {
    "task_id": "t",
    "instruction": "Mute the sound.",
    "task_completed": False,
    "alignment_score": 7,
    "traj": [
        {
            "index": 0,
            "image": "first.png",
            "value": {
                "code": "pyautogui.press('volumemute')",
                "observation": "A desktop.",
                "thought": "Press the key.",
                "action": "Press mute.",
            },
        },
        {
            "index": 1,
            "image": "second.png",
            "value": {"code": "pyautogui.scroll(-3)", "thought": "Down."},
        },
    ],
}


def write_agentnet(folder: Path, task: Any, images: str = "") -> Path:
    folder.mkdir(parents=True)
    (folder / images).mkdir(exist_ok=True)
    (folder / "task.json").write_text(json.dumps(task))
    for shade, name in enumerate(("first.png", "second.png")):
        (folder / images / name).write_bytes(make_png(shade, SCREEN))
    return folder
