"""A recording as OSWorld keeps one: ``traj.jsonl``, a picture after each step, ``result.txt``.

The fields of a line are those of OSWorld's lib_run_single.py; see importers.osworld, which reads
them back. What was taken over from OSWorld comes out with its own lines and names of pictures.
``step_0.png`` is the screen before the first step, which OSWorld itself does not keep.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from pydantic import JsonValue

from agentserve.core.actions.dialects import CoordinateSpace, pixels
from agentserve.core.errors import RecordingError
from agentserve.core.screens import Size
from agentserve.core.secret_names import placeholder
from agentserve.replay.account import Account
from agentserve.replay.bundle.format import StepLine
from agentserve.replay.bundle.png import png_size
from agentserve.replay.bundle.reader import Recording
from agentserve.replay.exporters.given import Given
from agentserve.replay.exporters.places import Focus
from agentserve.replay.exporters.statements import statements_of
from agentserve.replay.exporters.unheld import tell_unheld
from agentserve.replay.importers.osworld import FIRST_SCREEN, FORMAT, RESULT, TRAJECTORY
from agentserve.replay.redaction.secrets import names_in

_PICTURE = re.compile(r"[A-Za-z0-9_@.-]{1,200}\.png")
_TIME = "%Y%m%d@%H%M%S%f"


@dataclass
class _Line:
    """One line to be written, and the screen before it."""

    step: StepLine
    values: dict[str, JsonValue] | None
    """As OSWorld wrote it; None: it is ours to make."""
    before: str | None


@dataclass
class _Files:
    """What is written, and what is not."""

    recording: Recording
    by_name: dict[str, bytes] = field(default_factory=dict)
    account: Account = field(default_factory=Account)

    def picture(self, sha: str, named: JsonValue, otherwise: str) -> str:
        """The name under which a picture is written: the one it had, if it is one and is free."""
        data = self.recording.screenshot(sha)
        plain = isinstance(named, str) and _PICTURE.fullmatch(named) and named != FIRST_SCREEN
        name = named if plain and self.by_name.get(named, data) == data else otherwise
        while self.by_name.get(name, data) != data:
            name = f"{name.removesuffix('.png')}_.png"
        self.by_name[name] = data
        return name


def give(recording: Recording) -> Given:
    """The folder's files by their names. Raises RecordingError when a screenshot is damaged, and
    when nothing was done."""
    files = _Files(recording)
    lines = list(_lines(recording))
    if not lines:
        raise RecordingError(f"{recording.name}: there is no step that OSWorld could hold")
    last = recording.steps[-1]
    after = last.screenshot if _is_look(last) else None
    if lines[0].before:
        files.by_name[FIRST_SCREEN] = recording.screenshot(lines[0].before)
    screens = [*(line.before for line in lines[1:]), after]
    space, focus = _space(recording), Focus()
    texts = []
    for number, (line, shown) in enumerate(zip(lines, screens, strict=True), start=1):
        values = line.values
        if values is None:
            values = _made(recording, line.step, number, number == len(lines), files.account)
            values["action"], lost = statements_of(line.step, space, focus)
            for sentence in lost:
                files.account.lose(sentence, line.step.index)
        focus.after(line.step)
        for name in names_in(str(values.get("action", ""))):
            stands = f"the secret {name} stands in it as {placeholder(name)}"
            files.account.lose(f"{stands}, for which OSWorld fills in nothing", line.step.index)
        if shown:
            otherwise = f"step_{number}_{values.get('action_timestamp', '')}.png"
            if not _PICTURE.fullmatch(otherwise):
                otherwise = f"step_{number}.png"
            named = values.get("screenshot_file")
            values = {**values, "screenshot_file": files.picture(shown, named, otherwise)}
        elif line.values is None:
            files.account.lose("there is no picture of the screen after it", line.step.index)
        texts.append(json.dumps(values, ensure_ascii=False) + "\n")
    files.by_name[TRAJECTORY] = "".join(texts).encode()
    _result(recording, files)
    _losses(recording, files)
    return Given(files=files.by_name, lost=files.account.sentences(), is_folder=True)


def _ours(recording: Recording) -> bool:
    """Whether it was taken over from OSWorld."""
    imported = recording.meta.imported
    return imported is not None and imported.format == FORMAT


def _is_look(step: StepLine) -> bool:
    """Whether nothing was asked and nothing done: a last look at the screen."""
    asked = step.result or step.thought or step.outcome.status != "ok"
    own = not step.origin or (isinstance(step.origin, dict) and "look" in step.origin)
    return step.performed is None and not asked and own


def _lines(recording: Recording) -> Iterator[_Line]:
    own = _ours(recording)
    inside = False
    for step in recording.steps:
        origin = step.origin if own and isinstance(step.origin, dict) else {}
        values = origin.get("line")
        if isinstance(values, dict):
            inside = True
            yield _Line(step, values, step.screenshot)
        elif not ("part" in origin and inside):
            inside = False
            if step is not recording.steps[-1] or not _is_look(step):
                yield _Line(step, None, step.screenshot)


def _space(recording: Recording) -> CoordinateSpace:
    """Points of a trajectory are px of its pictures."""
    viewport = recording.meta.viewport
    first = next((step.screenshot for step in recording.steps if step.screenshot), None)
    size: Size = png_size(recording.screenshot(first)) if first else viewport
    return pixels(size, viewport)


def _made(
    recording: Recording, step: StepLine, number: int, last: bool, account: Account
) -> dict[str, Any]:
    """A line of ours. Times are those of the recording's beginning and of how long steps took."""
    passed = sum(one.step_ms or 0 for one in recording.steps[: step.index + 1])
    time = recording.meta.created_at
    try:
        time += timedelta(milliseconds=passed)
    except OverflowError:  # of a time that no calendar has
        account.lose("when it was done is not known: it gets the recording's time", step.index)
    end = recording.end
    info: dict[str, JsonValue] = {}
    if step.outcome.status != "ok":
        info = {"status": step.outcome.status, "message": step.outcome.message}
    return {
        "step_num": number,
        "action_timestamp": time.strftime(_TIME),
        "action": "",
        "response": step.result.text if step.result else step.thought,
        "reward": (end.reward or 0) if end and last else 0,
        "done": last,
        "info": info,
    }


def _result(recording: Recording, files: _Files) -> None:
    imported, end = recording.meta.imported, recording.end
    data = imported.data if imported and _ours(recording) else None
    known = data.get("result") if isinstance(data, dict) else None
    reward = end.reward if end else None
    if reward is None and end and end.success is not None:
        reward = float(end.success)
    if isinstance(known, str):
        files.by_name[RESULT] = known.encode()
    elif reward is not None:
        files.by_name[RESULT] = f"{reward}\n".encode()
    elif not _ours(recording):
        files.account.lose("whether the task succeeded is not known: there is no result.txt")


def _losses(recording: Recording, files: _Files) -> None:
    """What OSWorld has no place for at all."""
    tell_unheld(recording, files.account)
    if _ours(recording):
        return
    steps = recording.steps
    for what, there in (
        ("the task", recording.meta.task),
        ("addresses of pages", any(step.url for step in steps)),
        ("elements", any(step.target or step.to_target for step in steps)),
        ("what turns cost", any(step.result for step in steps)),
        ("the session", recording.meta.session),
    ):
        if there:
            files.account.lose(f"OSWorld has no place for {what}")
