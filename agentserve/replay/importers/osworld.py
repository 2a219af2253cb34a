"""OSWorld: a folder with ``traj.jsonl``, a picture of the screen after each step, ``result.txt``.

As written by OSWorld's lib_run_single.py, one line a step: step_num, action_timestamp, action
(lines of PyAutoGUI, ``WAIT``, ``DONE``, ``FAIL``, or an object of its action space computer_13),
response, reward, done, info, screenshot_file. A line ``{"Error": …}`` says that the run failed.

OSWorld takes its picture when a step is over, a bundle when it begins: each picture becomes what
the next step looked at, and the last one a step in which nothing is done. ``step_0.png``, which our
exporter writes, is what the first step looked at. A line with several actions becomes as many
steps. ``origin`` is ``{"line": …}`` of the first of them, ``{"part": n}`` of the others, and
``{"look": "last"}`` of the last picture.
"""

from __future__ import annotations

import math
import os
from pathlib import Path
from typing import Any

from agentserve.core.actions.dialects import CoordinateSpace, pixels, pyautogui
from agentserve.core.actions.dialects.calls import Call
from agentserve.core.actions.dialects.checks import pointer_after
from agentserve.core.actions.dialects.spaces import Point
from agentserve.core.actions.recorded import RecordedAction, Unsupported
from agentserve.core.errors import BadAction, RecordingError
from agentserve.core.screens import Size
from agentserve.core.sessions import Outcome
from agentserve.replay.account import Account, shortened
from agentserve.replay.bundle.folder import FolderEntries
from agentserve.replay.bundle.format import (
    MAX_STEPS_BYTES,
    EndLine,
    StepLine,
)
from agentserve.replay.importers.losses import MAX_WORDS, task_of, tell_unsupported
from agentserve.replay.importers.sources import Pictures, read_lines, text_in
from agentserve.replay.importers.statements import end_after, read_statements
from agentserve.replay.importers.taken import MAX_STEPS, Taken

FORMAT = "osworld"
TRAJECTORY = "traj.jsonl"
RESULT = "result.txt"
FIRST_SCREEN = "step_0.png"
DEFAULT_SCREEN = Size(width=1920, height=1080)
_MAX_RESULT_BYTES = 1000
_MAX_THOUGHT = 20_000
_MAX_NAMED = 20

# computer_13 -> a function of PyAutoGUI, and its arguments by the parameters' names
_COMPUTER_13 = {
    "MOVE_TO": ("moveTo", {"x": "x", "y": "y"}),
    "CLICK": ("click", {"x": "x", "y": "y", "button": "button", "num_clicks": "clicks"}),
    "RIGHT_CLICK": ("rightClick", {"x": "x", "y": "y"}),
    "DOUBLE_CLICK": ("doubleClick", {"x": "x", "y": "y"}),
    "DRAG_TO": ("dragTo", {"x": "x", "y": "y"}),
    "TYPING": ("write", {"text": "message"}),
    "PRESS": ("press", {"key": "keys"}),
    "KEY_DOWN": ("keyDown", {"key": "key"}),
    "KEY_UP": ("keyUp", {"key": "key"}),
    "HOTKEY": ("hotkey", {"keys": "keys"}),
    "MOUSE_DOWN": ("mouseDown", {"button": "button"}),
    "MOUSE_UP": ("mouseUp", {"button": "button"}),
    "WAIT": ("wait", {}),
}


def take(path: Path) -> Taken:
    """Take over the folder of one run. Points are px of the desktop's screen.

    Raises RecordingError, naming the file, for what is no such folder or not safe to read.
    """
    account = Account()
    pictures = Pictures(path, account)
    data = FolderEntries(path).read(TRAJECTORY, MAX_STEPS_BYTES)
    lines = [line for _, line in read_lines(data, TRAJECTORY, MAX_STEPS)]
    if not lines:
        raise RecordingError(f"{TRAJECTORY}: there is no step in it")
    screens = _screens(path, lines, pictures)
    viewport = pictures.viewport(screens, DEFAULT_SCREEN)
    account.lose("points and pictures are of a whole desktop, not of a page")
    steps = _steps(lines, screens, pixels(viewport, viewport), account)
    if len(steps) > MAX_STEPS:
        raise RecordingError(f"{TRAJECTORY}: {len(steps)} steps; {MAX_STEPS} is most")
    _others(path, lines, account)
    result = _result(path, account)
    return Taken(
        format=FORMAT,
        viewport=viewport,
        steps=tuple(steps),
        task=task_of(text_in(lines[0], "instruction"), account),
        end=_end(steps, result),
        screenshots=pictures.by_sha,
        lost=account.sentences(),
        data={"result": result},
    )


def _screens(path: Path, lines: list[dict[str, Any]], pictures: Pictures) -> list[str | None]:
    """What was seen before each line, and after the last: one more than there are lines."""
    there = os.path.lexists(path / FIRST_SCREEN)
    screens = [pictures.named(FIRST_SCREEN, TRAJECTORY) if there else None]
    for number, line in enumerate(lines, start=1):
        name = line.get("screenshot_file")
        screens.append(pictures.named(name, f"{TRAJECTORY} line {number}") if name else None)
    return screens


def _steps(
    lines: list[dict[str, Any]],
    screens: list[str | None],
    space: CoordinateSpace,
    account: Account,
) -> list[StepLine]:
    steps: list[StepLine] = []
    pointer: Point | None = None
    for line, screen in zip(lines, screens, strict=False):
        index = len(steps)
        thought = text_in(line, "response", "thought")
        actions = _actions(line.get("action"), space, pointer, index, account) or (None,)
        for part, action in enumerate(actions):
            pointer = pointer_after(action, pointer)
            steps.append(
                StepLine(
                    index=index + part,
                    url="",
                    screenshot=None if part else screen,
                    performed=action,
                    outcome=_outcome(line, index, account),
                    thought="" if part else account.cut(thought, _MAX_THOUGHT, "response", index),
                    origin={"part": part} if part else account.origin({"line": line}, index),
                )
            )
    if screens[-1]:
        look = {"look": "last"}
        steps.append(StepLine(index=len(steps), url="", screenshot=screens[-1], origin=look))
    return steps


def _actions(
    said: Any, space: CoordinateSpace, pointer: Point | None, step: int, account: Account
) -> tuple[RecordedAction, ...]:
    if isinstance(said, dict) and isinstance(said.get("command"), str):
        said = said["command"]  # of agents that keep a model's tool call beside its code
    if isinstance(said, str):
        return read_statements(said, space, pointer, step, account)
    if isinstance(said, dict):
        return _computer_13(said, space, pointer, step, account)
    if said is not None:
        account.lose("its action is neither text nor an object", step)
        return (Unsupported(what="an action that is neither text nor an object"),)
    account.lose("it has no action", step)
    return ()


def _computer_13(
    said: dict[str, Any], space: CoordinateSpace, pointer: Point | None, step: int, account: Account
) -> tuple[RecordedAction, ...]:
    kind, values = text_in(said, "action_type"), said
    if isinstance(said.get("parameters"), dict):
        values = said["parameters"]
    if kind in ("DONE", "FAIL"):
        return pyautogui.read(kind, space)
    if kind == "SCROLL":
        calls = [
            Call(name, (values[field],), {})
            for name, field in (("hscroll", "dx"), ("scroll", "dy"))
            if values.get(field)
        ]
    elif kind in _COMPUTER_13:
        name, fields = _COMPUTER_13[kind]
        calls = [Call(name, (), {to: values[was] for was, to in fields.items() if was in values})]
    else:
        calls = []
    try:
        actions = pyautogui.read_each(calls, space, pointer)
    except BadAction as error:
        account.lose(
            f"the action {shortened(kind, 100)!r} was not understood: {error.message}", step
        )
        return (Unsupported(what=f"the action {shortened(kind, 100)}"),)
    for action in actions:
        tell_unsupported(action, account, step)
    return actions


def _outcome(line: dict[str, Any], step: int, account: Account) -> Outcome:
    if "Error" in line:
        error = account.cut(str(line["Error"]), MAX_WORDS, "its error", step)
        return Outcome(status="failed", message=error)
    return Outcome(status="ok")


def _others(path: Path, lines: list[dict[str, Any]], account: Account) -> None:
    """Files that nothing has a place for, such as the video."""
    taken = {
        TRAJECTORY,
        RESULT,
        FIRST_SCREEN,
        *(str(line.get("screenshot_file")) for line in lines),
    }
    with os.scandir(path) as entries:
        names = sorted(entry.name for entry in entries if entry.name not in taken)
    for name in names[:_MAX_NAMED]:
        account.lose(f"the file {name[:200]!r} is not taken over")
    if len(names) > _MAX_NAMED:
        account.lose(f"nor are {len(names) - _MAX_NAMED} other files")


def _result(path: Path, account: Account) -> str | None:
    if not os.path.lexists(path / RESULT):
        account.lose(f"{RESULT} is missing: how the task was judged is not known")
        return None
    try:
        return FolderEntries(path).read(RESULT, _MAX_RESULT_BYTES).decode()
    except UnicodeDecodeError as error:
        raise RecordingError(f"{RESULT}: not UTF-8") from error


def _end(steps: list[StepLine], result: str | None) -> EndLine:
    """OSWorld's results are 0 to 1; a task has succeeded with 1."""
    try:
        reward = None if result is None else float(result)
    except ValueError as error:
        raise RecordingError(f"{RESULT}: no number in it") from error
    if reward is not None and not math.isfinite(reward):
        raise RecordingError(f"{RESULT}: {reward} is no result")
    performed = [step.performed for step in steps if step.performed]
    end = end_after(performed[-1]) if performed else "closed"
    success = None if reward is None else reward >= 1
    return EndLine(end=end, success=success, reward=reward, turns=len(performed))
