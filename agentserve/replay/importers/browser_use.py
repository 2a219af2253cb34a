"""browser-use: the JSON file that AgentHistoryList.save_to_file writes, with the screenshots that
it names beside it or in ``screenshots/``.

As written by browser-use 0.13 (agent/views.py, tools/views.py), and by older ones, whose names of
actions and of an element's fields were others. Each item of ``history`` has several actions, each
of which becomes a step; the picture is what was seen before the first of them. What only reads the
page, as ``extract``, is a step in which nothing is done to it. browser-use says no viewport: it is
the first picture's size, at a device pixel ratio of 1, which is told.

``origin`` is ``{"item": …}`` of an item's first step and ``{"part": n}`` of the others.
"""

from __future__ import annotations

import base64
import binascii
import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from agentserve.core.actions import Back, Navigate
from agentserve.core.actions.recorded import CloseTab, OpenTab, RecordedAction, SwitchTab
from agentserve.core.elements import ElementTarget
from agentserve.core.errors import RecordingError
from agentserve.core.screens import Size
from agentserve.core.sessions import Outcome
from agentserve.replay.account import Account, shortened
from agentserve.replay.bundle.folder import FolderEntries
from agentserve.replay.bundle.format import (
    MAX_SCREENSHOT_BYTES,
    MAX_STEPS_BYTES,
    EndLine,
    StepLine,
)
from agentserve.replay.importers.browser_use_actions import Told, read_action
from agentserve.replay.importers.browser_use_elements import element_of, is_password_field
from agentserve.replay.importers.losses import MAX_WORDS, task_of
from agentserve.replay.importers.sources import (
    Pictures,
    json_file,
    read_json_object,
    read_object,
    text_in,
)
from agentserve.replay.importers.statements import end_after
from agentserve.replay.importers.taken import MAX_STEPS, Taken

FORMAT = "browser-use"
DEFAULT_VIEWPORT = Size(width=1280, height=720)
MAX_TABS = 1000
_MAX_ACTIONS = 100
_MAX_THOUGHT = 20_000
_THOUGHTS = ("thinking", "evaluation_previous_goal", "memory", "next_goal")
_PAGE = re.compile(r"(https?|file):")
"""What a browser shows first, as ``chrome://newtab``, is no page."""
_TASK = ("<user_request>\n", "\n</user_request>")
_LEAVING = (Back, CloseTab, Navigate, OpenTab, SwitchTab)
"""Actions after which another page is in front."""


class _Act(NamedTuple):
    """What one of an item's actions did."""

    performed: RecordedAction | None = None
    target: ElementTarget | None = None
    outcome: Outcome = Outcome(status="ok")
    password: bool = False
    """Whether its element is a password's field."""


def take(path: Path) -> Taken:
    """Take over a history file, or a folder with one.

    Raises RecordingError, naming the file, for what is no such file or not safe to read.
    """
    folder, name = json_file(path)
    account = Account()
    pictures = Pictures(folder, account)
    history = read_json_object(FolderEntries(folder).read(name, MAX_STEPS_BYTES), name)
    said = history.get("history")
    if not isinstance(said, list) or not said or len(said) > MAX_STEPS:
        raise RecordingError(f"{name}: history must be a list of 1 to {MAX_STEPS} items")
    items = [read_object(one, f"{name} item {at}") for at, one in enumerate(said)]
    screens = [_screen(item, f"{name} item {at}", pictures) for at, item in enumerate(items)]
    viewport = pictures.viewport(screens, DEFAULT_VIEWPORT)
    if pictures.by_sha:
        account.lose(
            f"the viewport in CSS px is not said: the pictures' {viewport} is taken for it. On a "
            "screen of another device pixel ratio than 1, scrolled pages and points are too large"
        )
    steps: list[StepLine] = []
    passwords: list[int] = []
    tabs: dict[str, None] = {}
    for item, screen in zip(items, screens, strict=True):
        tabs |= dict.fromkeys(_tabs(item))
        if len(tabs) > MAX_TABS:
            raise RecordingError(f"{name}: more than {MAX_TABS} tabs")
        acts = _acts(item, viewport, tuple(tabs), len(steps), account)
        passwords += [len(steps) + part for part, act in enumerate(acts) if act.password]
        steps += _steps(item, screen, acts, len(steps), account)
        if len(steps) > MAX_STEPS:
            raise RecordingError(f"{name}: over {MAX_STEPS} actions")
    return Taken(
        format=FORMAT,
        viewport=viewport,
        steps=tuple(steps),
        url=_begin(steps),
        task=task_of(_task(items[0]), account),
        created_at=_time(items[0]),
        end=_end(steps, items[-1]),
        screenshots=pictures.by_sha,
        passwords=tuple(passwords),
        data=account.data({key: value for key, value in history.items() if key != "history"}),
        lost=account.sentences(),
    )


def _screen(item: dict[str, Any], where: str, pictures: Pictures) -> str | None:
    """A picture in the file, as older ones have it, or one by the last part of its path: of where
    it was saved, only its name is used."""
    state = _object(item, "state")
    inside, path = text_in(state, "screenshot"), text_in(state, "screenshot_path")
    if inside:
        data = inside.rpartition("base64,")[2]
        if len(data) > MAX_SCREENSHOT_BYTES * 4 // 3 + 4:
            raise RecordingError(f"{where}: its screenshot is over {MAX_SCREENSHOT_BYTES} bytes")
        try:
            return pictures.add(base64.b64decode(data, validate=True), f"{where}: its screenshot")
        except (binascii.Error, ValueError) as error:
            raise RecordingError(f"{where}: its screenshot is not base64") from error
    if path:
        own = path[max(path.rfind("/"), path.rfind("\\")) + 1 :]
        return pictures.named(own, where, within=("", "screenshots/"))
    return None


def _tabs(item: dict[str, Any]) -> list[str]:
    """Ids of the tabs that are open."""
    return [text_in(tab, "target_id") for tab in _objects(_object(item, "state").get("tabs"))]


def _acts(
    item: dict[str, Any], viewport: Size, tabs: tuple[str, ...], index: int, account: Account
) -> list[_Act]:
    """What was done in an item, at least one; ``index`` is the number of its first step."""
    results = _objects(item.get("result"))
    elements = _object(item, "state").get("interacted_element")
    elements = elements if isinstance(elements, list) else []
    asked = _objects(_object(item, "model_output").get("action"))
    acts: list[_Act] = []
    if len(asked) > _MAX_ACTIONS:
        account.lose(f"{len(asked)} actions; the first {_MAX_ACTIONS} are taken over", index)
    for part, action in enumerate(asked[:_MAX_ACTIONS]):
        if results and part >= len(results):
            left = ", ".join(
                shortened(str(next(iter(one), "?")), 40) for one in asked[part:_MAX_ACTIONS]
            )
            account.lose(f"actions that were not done any more: {left}", index)
            break
        result = results[part] if results else {}
        element = elements[part] if part < len(elements) else None
        told = Told(viewport, element_of(element), result, tabs, index + len(acts), account)
        performed, at = read_action(action, told)
        outcome = _outcome(result, index + len(acts), account)
        password = is_password_field(element)
        acts += [_Act(one, at, outcome, password) for one in performed or (None,)]
    if not acts:
        account.lose("it has no action", index)
        acts = [_Act(outcome=_outcome(results[0] if results else {}, index, account))]
    return acts


def _steps(
    item: dict[str, Any], screen: str | None, acts: list[_Act], index: int, account: Account
) -> list[StepLine]:
    state = _object(item, "state")
    kept = {key: value for key, value in state.items() if key != "screenshot"}
    thought = _thought(_object(item, "model_output"))
    url = account.cut(text_in(state, "url"), MAX_WORDS, "its address", index)
    url = url if _PAGE.match(url) else ""
    steps = []
    for part, act in enumerate(acts):
        steps.append(
            StepLine(
                index=index + part,
                url=url,
                screenshot=None if part else screen,
                performed=act.performed,
                target=act.target,
                outcome=act.outcome,
                step_ms=None if part else _milliseconds(item),
                thought="" if part else account.cut(thought, _MAX_THOUGHT, "thought", index),
                origin={"part": part}
                if part
                else account.origin({"item": {**item, "state": kept}}, index),
            )
        )
        if isinstance(act.performed, _LEAVING):  # where to is told by the next item only
            url = ""
    return steps


def _begin(steps: list[StepLine]) -> str:
    """The first page's address, or that of the first one that is gone to."""
    for step in steps:
        url = step.url or getattr(step.performed, "url", "")
        if url:
            return url
    return ""


def _task(item: dict[str, Any]) -> str:
    """It stands in what the model was sent only."""
    begin, end = _TASK
    return text_in(item, "state_message").partition(begin)[2].partition(end)[0]


def _thought(output: dict[str, Any]) -> str:
    inner = {**_object(output, "current_state"), **output}
    return "\n\n".join(text for name in _THOUGHTS if (text := text_in(inner, name)))


def _outcome(result: dict[str, Any], step: int, account: Account) -> Outcome:
    error = account.cut(text_in(result, "error"), MAX_WORDS, "its error", step)
    if error:
        return Outcome(status="failed", message=error)
    memory = text_in(result, "long_term_memory")
    return Outcome(status="ok", message=account.cut(memory, MAX_WORDS, "its memory", step))


def _end(steps: list[StepLine], item: dict[str, Any]) -> EndLine:
    performed = [step.performed for step in steps if step.performed]
    results = _objects(item.get("result"))
    success = results[-1].get("success") if results else None
    return EndLine(
        end=end_after(performed[-1]) if performed else "closed",
        success=success if isinstance(success, bool) else None,
        turns=len(performed),
    )


def _seconds(item: dict[str, Any], name: str) -> float | None:
    value = _object(item, "metadata").get(name)
    known = isinstance(value, int | float) and not isinstance(value, bool)
    return value if known and 0 <= value < 1e11 else None


def _time(item: dict[str, Any]) -> datetime | None:
    seconds = _seconds(item, "step_start_time")
    return None if seconds is None else datetime.fromtimestamp(int(seconds), UTC)


def _milliseconds(item: dict[str, Any]) -> float | None:
    start, end = _seconds(item, "step_start_time"), _seconds(item, "step_end_time")
    if start is None or end is None or end < start:
        return None
    return round((end - start) * 1000, 3)


def _object(values: dict[str, Any], name: str) -> dict[str, Any]:
    value = values.get(name)
    return value if isinstance(value, dict) else {}


def _objects(value: Any) -> list[dict[str, Any]]:
    """The objects of a list; what is none of them stands as an empty one, in its place."""
    values = value if isinstance(value, list) else []
    return [one if isinstance(one, dict) else {} for one in values]
