"""Recordings as JSON that Chrome's DevTools Recorder opens, and that @puppeteer/replay runs.

A step that came from Chrome goes back as it was. Others become Chrome's own steps where those can
say the same, and custom steps with the action as it is recorded where not: agentserve imports them
again, Chrome shows them and goes by.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest
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
from agentserve.core.secret_names import placeholder
from agentserve.replay.account import Account
from agentserve.replay.addresses import whole_address
from agentserve.replay.bundle.format import StepLine
from agentserve.replay.bundle.reader import Recording
from agentserve.replay.exporters.chrome_addresses import Addresses
from agentserve.replay.exporters.chrome_selectors import selectors_of
from agentserve.replay.exporters.given import Given
from agentserve.replay.exporters.places import (
    Focus,
    Tabs,
    start_address,
    tell_failure,
)
from agentserve.replay.exporters.playwright_locators import position
from agentserve.replay.exporters.unheld import tell_unheld, tell_unjudged
from agentserve.replay.importers.chrome import FORMAT
from agentserve.replay.importers.chrome_steps import CUSTOM_STEP
from agentserve.replay.importers.taken import MAX_STEPS
from agentserve.replay.redaction.secrets import names_in

MAX_TIMEOUT_MS = 30_000
"""The most that Chrome takes."""
_SLACK_MS = 1000
"""Longer than a pause, Chrome waits for its end."""
_LONGEST_TYPED = (2000, 200, 20, 0)
"""Characters of a text that is typed key by key; the first with which a flow is not too long."""

_BUTTONS = {"left": "primary", "middle": "auxiliary", "right": "secondary"}
_TYPED = frozenset(
    "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
    " *+-/;=,.`[\\]')!@#$%^&(:<_>?~{|}\"\n"
)
"""The characters that are keys for Chrome."""
_KEYS = {"\n": "Enter"}

Step = dict[str, Any]


@dataclass
class Writing:
    """A flow that is being written."""

    account: Account
    longest: int
    """Characters of a text that is typed key by key."""
    tabs: Tabs = field(default_factory=Tabs)
    """Before the step that is being written; so is ``focus``."""
    focus: Focus = field(default_factory=Focus)


def give(recording: Recording) -> Given:
    """The recording as a file that Chrome imports."""
    for longest in _LONGEST_TYPED:
        account = Account()
        steps = _steps(recording, Writing(account, longest))
        if len(steps) <= MAX_STEPS:
            break
    else:
        account.lose(f"it has {len(steps)} steps, and agentserve imports {MAX_STEPS} at most")
    if any(step.screenshot for step in recording.steps):
        account.lose("the screenshots")
    tell_unjudged(recording, account)
    tell_unheld(recording, account)
    about: dict[str, Any] = {"title": recording.meta.task or recording.meta.id}
    if _from_chrome(recording) and isinstance(recording.meta.imported.data, dict):
        about |= recording.meta.imported.data
    flow = {**about, "steps": steps}
    data = json.dumps(flow, ensure_ascii=False, indent=2) + "\n"
    return Given(files={f"{recording.meta.id}.json": data.encode()}, lost=account.sentences())


def _from_chrome(recording: Recording) -> bool:
    imported = recording.meta.imported
    return imported is not None and imported.format == FORMAT


def _steps(recording: Recording, writing: Writing) -> list[Step]:
    from_chrome = _from_chrome(recording)
    steps = [] if from_chrome else _begin(recording)
    addresses = Addresses(None if from_chrome else start_address(recording))
    if recording.steps:
        addresses.before(recording.steps[0], steps)
    _tell_secrets(steps, None, writing.account)
    for step, following in zip_longest(recording.taken, recording.steps[1:]):
        if from_chrome and isinstance(step.origin, list):
            given = [source for source in step.origin if isinstance(source, dict)]
        elif from_chrome and isinstance(step.performed, SwitchTab):
            given = []  # made of the next step's target
        elif from_chrome and writing.tabs.front != 0:
            writing.account.lose("nothing tells what Chrome called its tab: left out", step.index)
            given = []
        else:
            given = _given(step, writing, recording.meta.scale)
            addresses.after(step, given, following)
        _tell_secrets(given, step.index, writing.account)
        steps += given
        writing.tabs.after(step)
        writing.focus.after(step)
    return steps


def _tell_secrets(given: list[Step], index: int | None, account: Account) -> None:
    """Of steps that Chrome does."""
    done = [step for step in given if step.get("type") != "customStep"]
    for name in names_in(json.dumps(done)):
        stands = f"the secret {name} stands in it as {placeholder(name)}"
        account.lose(f"{stands}, for which Chrome fills in nothing", index)


def _begin(recording: Recording) -> list[Step]:
    """What a recording of ours says before its steps."""
    meta, first = recording.meta, next(iter(recording.steps), None)
    steps = []
    if first is None or not isinstance(first.performed, Resize):
        steps.append(_viewport(meta.viewport, meta.scale))
    if start := start_address(recording):
        steps.append({"type": "navigate", "url": start})
    return steps


def _given(step: StepLine, writing: Writing, scale: float) -> list[Step]:
    action, account = step.performed, writing.account
    if action is None:
        account.lose("nothing was done", step.index)
        return []
    tell_failure(step, account)
    if writing.tabs.front != 0 and not isinstance(action, SwitchTab):
        account.lose("it is done in another tab than the first", step.index)
        return _custom(step, account)
    if isinstance(action, Resize):
        return [_viewport(action.size, scale)]
    convert = _CONVERTERS.get(action.kind)
    steps = convert(step, action, writing) if convert else None
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


def _click(step: StepLine, action: Any, writing: Writing) -> Steps:
    """Of Click, DoubleClick and ClickElement."""
    selectors = selectors_of(step.target, writing.account, step.index)
    clicks = action.clicks if isinstance(action, ClickElement) else 1
    if not selectors or clicks > 2:
        return None
    double = clicks == 2 or isinstance(action, DoubleClick)
    x, y = _offset(step.target, writing.account, step.index)
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


def _hover(step: StepLine, action: Any, writing: Writing) -> Steps:
    selectors = selectors_of(step.target, writing.account, step.index)
    if not selectors:
        return None
    if position(step.target) is not None:
        writing.account.lose("Chrome hovers over the middle of an element", step.index)
    return [{"type": "hover", "target": "main", "selectors": selectors}]


def _fill(step: StepLine, action: Fill, writing: Writing) -> Steps:
    selectors = selectors_of(step.target, writing.account, step.index)
    if not selectors:
        return None
    if action.value in ("true", "false"):
        sentence = "Chrome sets the value of a text, it does not check a box"
        writing.account.lose(sentence, step.index)
    change = {"type": "change", "target": "main", "selectors": selectors, "value": action.value}
    return [change]


def _type(step: StepLine, action: Type, writing: Writing) -> Steps:
    """Key by key: Chrome's ``change`` would replace what stands there."""
    text, target = action.text, step.target
    if not _TYPED.issuperset(text) or len(text) > writing.longest or names_in(text):
        return None
    strokes = _strokes([_KEYS.get(char, char) for char in text])
    if target is None or _has_focus(step, writing):
        return strokes
    clicks = _click(step, ClickElement(), writing)
    if clicks is None:
        return None
    writing.account.lose(
        "it clicks the element before it types: keys of Chrome have none", step.index
    )
    return clicks + strokes


def _has_focus(step: StepLine, writing: Writing) -> bool:
    """Whether keys go to the element of a step by themselves, which is told."""
    if step.target is None or not writing.focus.is_on(step.target):
        return False
    sentence = "keys of Chrome have no element: they go to the one that has the focus"
    writing.account.lose(sentence, step.index)
    return True


def _key(step: StepLine, action: Key, writing: Writing) -> Steps:
    # a click on the element would do what the key is to do to a button
    if step.target is not None and not _has_focus(step, writing):
        return None
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


def _stroke(step: StepLine, action: KeyDown | KeyUp, writing: Writing) -> Steps:
    if len(action.key) == 1 and action.key not in _TYPED:
        return None
    if step.target is not None and not _has_focus(step, writing):
        return None
    kind = "keyDown" if isinstance(action, KeyDown) else "keyUp"
    return [{"type": kind, "target": "main", "key": action.key}]


def _scroll_to(step: StepLine, action: ScrollTo, writing: Writing) -> Steps:
    given: Step = {"type": "scroll", "target": "main", "x": action.x, "y": action.y}
    if step.target is not None:
        selectors = selectors_of(step.target, writing.account, step.index)
        if not selectors:
            return None
        given["selectors"] = selectors
    return [given]


def _wait(step: StepLine, action: Wait, writing: Writing) -> Steps:
    """In parts, each over before Chrome gives up."""
    most = MAX_TIMEOUT_MS - _SLACK_MS
    ms = action.seconds * 1000
    parts = [most] * (ms // most) + ([ms % most] if ms % most else [])
    return [
        {
            "type": "waitForExpression",
            "expression": f"new Promise(resolve => setTimeout(() => resolve(true), {part}))",
            "timeout": part + _SLACK_MS,
        }
        for part in parts
    ]


def _wait_for(step: StepLine, action: WaitFor, writing: Writing) -> Steps:
    timeout = {"timeout": min(max(round(action.timeout_s * 1000), 1), MAX_TIMEOUT_MS)}
    if action.expression is not None:
        wait: Step = {"type": "waitForExpression", "expression": action.expression, **timeout}
    else:
        selectors = selectors_of(step.target, writing.account, step.index)
        if not selectors or action.text is not None or action.value is not None:
            return None
        wait = {"type": "waitForElement", "target": "main", "selectors": selectors, **timeout}
        wait |= {} if action.visible else {"operator": "==", "count": 0}
    if action.timeout_s * 1000 > MAX_TIMEOUT_MS:
        most = f"{MAX_TIMEOUT_MS / 1000:g} s at most, not {action.timeout_s:g} s"
        writing.account.lose(f"Chrome waits {most}", step.index)
    return [wait]


def _navigate(step: StepLine, action: Navigate, writing: Writing) -> Steps:
    return [{"type": "navigate", "target": "main", "url": whole_address(step.url, action.url)}]


def _close(step: StepLine, action: CloseTab, writing: Writing) -> Steps:
    return [{"type": "close", "target": "main"}]


_CONVERTERS: dict[str, Callable[[StepLine, Any, Writing], Steps]] = {
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
        (KeyDown, _stroke),
        (KeyUp, _stroke),
        (ScrollTo, _scroll_to),
        (Wait, _wait),
        (WaitFor, _wait_for),
        (Navigate, _navigate),
        (CloseTab, _close),
    )
}
