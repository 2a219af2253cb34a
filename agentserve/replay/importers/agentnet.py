"""AgentNet: one task as JSON, with the pictures that it names beside it or in ``images/``.

As published with OpenCUA: of its benchmark {task_id, high_level_task_description, steps: [{image,
action, inner_monologue: {observation, thought, low_level_instruction}, …}]}, and of its training
data {task_id, instruction, traj: [{image, value: {code, observation, thought, action, …}}],
task_completed, …}. Actions are lines of PyAutoGUI whose points are fractions of the screen; each
picture is what was seen before its step.

A step with several actions becomes as many steps of the bundle. ``origin`` is ``{"step": …}`` of
the first of them and ``{"part": n}`` of the others.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from agentserve.core.actions.dialects import fractions
from agentserve.core.actions.dialects.checks import pointer_after
from agentserve.core.actions.dialects.spaces import Point
from agentserve.core.errors import RecordingError
from agentserve.core.screens import Size
from agentserve.replay.account import Account
from agentserve.replay.bundle.folder import FolderEntries
from agentserve.replay.bundle.format import MAX_STEPS_BYTES, EndLine, StepLine
from agentserve.replay.importers.losses import task_of
from agentserve.replay.importers.sources import (
    Pictures,
    json_file,
    read_json_object,
    read_object,
    text_in,
)
from agentserve.replay.importers.statements import end_after, read_statements
from agentserve.replay.importers.taken import MAX_STEPS, Taken

FORMAT = "agentnet"
DEFAULT_SCREEN = Size(width=1920, height=1080)
_STEPS = ("steps", "traj")
_MAX_THOUGHT = 20_000
_THOUGHTS = ("observation", "thought", "reflection", "low_level_instruction", "action")


def take(path: Path) -> Taken:
    """Take over one task: its JSON file, or a folder with one. Points become px of its first
    picture.

    Raises RecordingError, naming the file, for what is no such file or not safe to read.
    """
    folder, name = json_file(path)
    account = Account()
    pictures = Pictures(folder, account)
    task = read_json_object(FolderEntries(folder).read(name, MAX_STEPS_BYTES), name)
    said = next((task[field] for field in _STEPS if isinstance(task.get(field), list)), None)
    if not said:
        raise RecordingError(f"{name}: there are no steps in it (fields steps or traj)")
    if len(said) > MAX_STEPS:
        raise RecordingError(f"{name}: {len(said)} steps; {MAX_STEPS} is most")
    lines = [read_object(one, f"{name} step {at}") for at, one in enumerate(said)]
    screens = [
        pictures.named(line["image"], f"{name} step {at}", within=("", "images/"))
        if line.get("image")
        else None
        for at, line in enumerate(lines)
    ]
    viewport = pictures.viewport(screens, DEFAULT_SCREEN)
    account.lose("points and pictures are of a whole desktop, not of a page")
    steps = _steps(lines, screens, viewport, account)
    performed = [step.performed for step in steps if step.performed]
    completed = task.get("task_completed")
    return Taken(
        format=FORMAT,
        viewport=viewport,
        steps=steps,
        task=task_of(text_in(task, "high_level_task_description", "instruction"), account),
        end=EndLine(
            end=end_after(performed[-1]) if performed else "closed",
            success=completed if isinstance(completed, bool) else None,
            turns=len(performed),
        ),
        screenshots=pictures.by_sha,
        data=account.data({key: value for key, value in task.items() if key not in _STEPS}),
        lost=account.sentences(),
    )


def _steps(
    lines: list[dict[str, Any]], screens: list[str | None], viewport: Size, account: Account
) -> tuple[StepLine, ...]:
    space = fractions(viewport)
    steps: list[StepLine] = []
    pointer: Point | None = None
    for line, screen in zip(lines, screens, strict=True):
        index = len(steps)
        code, thought = _said(line)
        actions = read_statements(code, space, pointer, index, account)
        for part, action in enumerate(actions):
            pointer = pointer_after(action, pointer)
            steps.append(
                StepLine(
                    index=index + part,
                    url="",
                    screenshot=None if part else screen,
                    performed=action,
                    thought="" if part else account.cut(thought, _MAX_THOUGHT, "thought", index),
                    origin={"part": part} if part else account.origin({"step": line}, index),
                )
            )
    return tuple(steps)


def _said(line: dict[str, Any]) -> tuple[str, str]:
    """A step's code, and what was thought beside it."""
    value = line["value"] if isinstance(line.get("value"), dict) else line
    inner = line.get("inner_monologue")
    thoughts = inner if isinstance(inner, dict) else value if value is not line else {}
    code = text_in(value, "code") if value is not line else text_in(line, "action")
    return code, "\n\n".join(text for name in _THOUGHTS if (text := text_in(thoughts, name)))
