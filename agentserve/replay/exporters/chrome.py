"""Recordings as JSON that Chrome's DevTools Recorder opens, and that @puppeteer/replay runs.

A step that came from Chrome goes back as it was. Others become Chrome's own steps where those can
say the same, and custom steps with the action as it is recorded where not: agentserve imports them
again, Chrome shows them and goes by.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

from agentserve.core.actions import (
    Click,
    DoubleClick,
    Hover,
    Key,
    Navigate,
    Type,
    Wait,
)
from agentserve.core.actions.recorded import (
    ClickElement,
    CloseTab,
    Fill,
    HoverElement,
    KeyDown,
    KeyUp,
    Resize,
    ScrollTo,
    SwitchTab,
    WaitFor,
)
from agentserve.core.elements import ElementTarget
from agentserve.core.screens import Size
from agentserve.replay.account import Account
from agentserve.replay.bundle.format import StepLine
from agentserve.replay.bundle.reader import Recording
from agentserve.replay.exporters.chrome_selectors import selectors_of
from agentserve.replay.exporters.given import Given
from agentserve.replay.importers.chrome import FORMAT
from agentserve.replay.importers.chrome_steps import CUSTOM_STEP

MAX_TIMEOUT_MS = 30_000
"""The most that Chrome takes."""

_BUTTONS = {"left": "primary", "middle": "auxiliary", "right": "secondary"}
_TYPED = frozenset(
    "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
    " *+-/;=,.`[\\]')!@#$%^&(:<_>?~{|}\"\n"
)
"""The characters that are keys for Chrome."""
_KEYS = {"\n": "Enter"}

Step = dict[str, Any]


def give(recording: Recording) -> Given:
    """The recording as a file that Chrome imports."""
    account = Account()
    from_chrome = recording.meta.imported is not None and recording.meta.imported.format == FORMAT
    steps = [] if from_chrome else _begin(recording)
    for step in recording.steps:
        if from_chrome and isinstance(step.origin, list):
            steps += [source for source in step.origin if isinstance(source, dict)]
        elif from_chrome and isinstance(step.performed, SwitchTab):
            pass  # made of the next step's target
        elif isinstance(step.performed, Resize):
            steps.append(_viewport(step.performed.size, recording.meta.scale))
        else:
            steps += _given(step, account)
    if any(step.screenshot for step in recording.steps):
        account.lose("the screenshots")
    if any(step.result or step.thought for step in recording.steps):
        account.lose("what was thought and answered beside the actions")
    about: dict[str, Any] = {"title": recording.meta.task or recording.meta.id}
    if from_chrome and recording.meta.imported and isinstance(recording.meta.imported.data, dict):
        about |= recording.meta.imported.data
    flow = {**about, "steps": steps}
    data = json.dumps(flow, ensure_ascii=False, indent=2) + "\n"
    return Given(files={f"{recording.meta.id}.json": data.encode()}, lost=account.sentences())


def _begin(recording: Recording) -> list[Step]:
    """What a recording of ours says before its steps."""
    meta, first = recording.meta, next(iter(recording.steps), None)
    steps = []
    if first is None or not isinstance(first.performed, Resize):
        steps.append(_viewport(meta.viewport, meta.scale))
    if meta.url and not any(isinstance(step.performed, Navigate) for step in recording.steps[:2]):
        steps.append({"type": "navigate", "url": meta.url})
    return steps


def _given(step: StepLine, account: Account) -> list[Step]:
    if step.performed is None:
        account.lose("nothing was done", step.index)
        return []
    convert = _CONVERTERS.get(step.performed.kind)
    steps = convert(step, step.performed, account) if convert else None
    return _custom(step, account) if steps is None else steps


def _custom(step: StepLine, account: Account) -> list[Step]:
    action = step.performed
    account.lose(f"{action.kind} is a custom step, which Chrome itself goes by", step.index)
    parameters = {"action": action.model_dump(mode="json")}
    for name in ("target", "to_target"):
        target = getattr(step, name)
        if target is not None:
            parameters[name] = target.model_dump(mode="json", exclude_defaults=True)
    return [{"type": "customStep", "name": CUSTOM_STEP, "parameters": parameters}]


def _viewport(size: Size, scale: float) -> Step:
    return {
        "type": "setViewport",
        "width": size.width,
        "height": size.height,
        "deviceScaleFactor": max(scale, 1),  # below 1 only the pictures were made smaller
        "isMobile": False,
        "hasTouch": False,
        "isLandscape": size.width > size.height,
    }


Steps = list[Step] | None
"""None: Chrome has no such step."""


def _click(step: StepLine, action: Any, account: Account) -> Steps:
    """Of Click, DoubleClick and ClickElement."""
    selectors = selectors_of(step.target, account, step.index)
    clicks = action.clicks if isinstance(action, ClickElement) else 1
    if not selectors or clicks > 2:
        return None
    double = clicks == 2 or isinstance(action, DoubleClick)
    x, y = _offset(step.target, account, step.index)
    held = action.modifiers if isinstance(action, ClickElement) else ()
    return [
        *({"type": "keyDown", "target": "main", "key": name} for name in held),
        {
            "type": "doubleClick" if double else "click",
            "target": "main",
            "selectors": selectors,
            "offsetX": x,
            "offsetY": y,
            "deviceType": "mouse",
            "button": _BUTTONS[getattr(action, "button", "left")],
        },
        *({"type": "keyUp", "target": "main", "key": name} for name in reversed(held)),
    ]


def _offset(target: ElementTarget | None, account: Account, step: int) -> tuple[float, float]:
    """Chrome wants one, in CSS px of the element."""
    if target is not None and target.offset is not None:
        return target.offset
    if target is not None and target.box is not None:
        return target.box.width / 2, target.box.height / 2
    account.lose("it clicks 1 px inside of the element's corner: nothing tells its size", step)
    return 1, 1


def _hover(step: StepLine, action: Any, account: Account) -> Steps:
    selectors = selectors_of(step.target, account, step.index)
    return [{"type": "hover", "target": "main", "selectors": selectors}] if selectors else None


def _fill(step: StepLine, action: Fill, account: Account) -> Steps:
    selectors = selectors_of(step.target, account, step.index)
    if not selectors:
        return None
    if action.value in ("true", "false"):
        account.lose("Chrome sets the value of a text, it does not check a box", step.index)
    change = {"type": "change", "target": "main", "selectors": selectors, "value": action.value}
    return [change]


def _type(step: StepLine, action: Type, account: Account) -> Steps:
    """Key by key: Chrome's ``change`` would replace what stands there."""
    if not _TYPED.issuperset(action.text):
        return None
    return _strokes([_KEYS.get(char, char) for char in action.text])


def _key(step: StepLine, action: Key, account: Account) -> Steps:
    *held, key = action.keys.split("+")
    return [
        *({"type": "keyDown", "target": "main", "key": name} for name in held),
        *_strokes([key]),
        *({"type": "keyUp", "target": "main", "key": name} for name in reversed(held)),
    ]


def _strokes(keys: Sequence[str]) -> list[Step]:
    return [
        {"type": kind, "target": "main", "key": key}
        for key in keys
        for kind in ("keyDown", "keyUp")
    ]


def _key_down(step: StepLine, action: KeyDown, account: Account) -> Steps:
    return [{"type": "keyDown", "target": "main", "key": action.key}]


def _key_up(step: StepLine, action: KeyUp, account: Account) -> Steps:
    return [{"type": "keyUp", "target": "main", "key": action.key}]


def _scroll_to(step: StepLine, action: ScrollTo, account: Account) -> Steps:
    given: Step = {"type": "scroll", "target": "main", "x": action.x, "y": action.y}
    if step.target is not None:
        selectors = selectors_of(step.target, account, step.index)
        if not selectors:
            return None
        given["selectors"] = selectors
    return [given]


def _wait(step: StepLine, action: Wait, account: Account) -> Steps:
    ms = action.seconds * 1000
    return [
        {
            "type": "waitForExpression",
            "expression": f"new Promise(resolve => setTimeout(() => resolve(true), {ms}))",
            "timeout": min(ms + 1000, MAX_TIMEOUT_MS),
        }
    ]


def _wait_for(step: StepLine, action: WaitFor, account: Account) -> Steps:
    timeout = {"timeout": min(max(round(action.timeout_s * 1000), 1), MAX_TIMEOUT_MS)}
    if action.expression is not None:
        return [{"type": "waitForExpression", "expression": action.expression, **timeout}]
    selectors = selectors_of(step.target, account, step.index)
    if not selectors or action.text is not None or action.value is not None:
        return None
    wait: Step = {"type": "waitForElement", "target": "main", "selectors": selectors, **timeout}
    return [wait if action.visible else {**wait, "operator": "==", "count": 0}]


def _navigate(step: StepLine, action: Navigate, account: Account) -> Steps:
    return [{"type": "navigate", "target": "main", "url": action.url}]


def _close(step: StepLine, action: CloseTab, account: Account) -> Steps:
    return [{"type": "close", "target": "main"}]


_CONVERTERS: dict[str, Callable[[StepLine, Any, Account], Steps]] = {
    action.model_fields["kind"].default: convert
    for action, convert in (
        (Click, _click),
        (DoubleClick, _click),
        (ClickElement, _click),
        (Hover, _hover),
        (HoverElement, _hover),
        (Fill, _fill),
        (Type, _type),
        (Key, _key),
        (KeyDown, _key_down),
        (KeyUp, _key_up),
        (ScrollTo, _scroll_to),
        (Wait, _wait),
        (WaitFor, _wait_for),
        (Navigate, _navigate),
        (CloseTab, _close),
    )
}
