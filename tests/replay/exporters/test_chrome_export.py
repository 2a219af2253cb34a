"""Recordings for Chrome's Recorder."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from replay.flows import Flow, check_flow

from agentserve.core.actions import (
    Back,
    CallUser,
    Click,
    Done,
    DoubleClick,
    Drag,
    Hover,
    Key,
    Navigate,
    Scroll,
    Type,
    Wait,
)
from agentserve.core.actions.recorded import (
    RECORDED_ACTION_ADAPTER,
    ClickElement,
    CloseTab,
    Fill,
    Forward,
    HoverElement,
    KeyDown,
    KeyUp,
    OpenTab,
    Reload,
    Resize,
    ScrollTo,
    SwitchTab,
    Unsupported,
    WaitFor,
)
from agentserve.core.elements import ElementTarget, PageBox, Selector
from agentserve.core.screens import Size
from agentserve.replay import StepLine, read_recording
from agentserve.replay.exporters.chrome import give
from agentserve.replay.importers.chrome import take_flow
from agentserve.replay.importers.taken import Taken, write_taken

BUTTON = ElementTarget(
    selectors=(
        (Selector(engine="aria", value="Save", role="button"),),
        (Selector(engine="css", value="#host"), Selector(engine="test_id", value='a"b')),
        (Selector(engine="xpath", value="//button", nth=-1),),
        (Selector(engine="text", value="Save", exact=False),),
        (Selector(engine="css", value="button", nth=3),),
    ),
    box=PageBox(x=10, y=20, width=40, height=10),
)
SELECTORS = [
    ['aria/Save[role="button"]'],
    ["#host", '[data-testid="a\\22 b"]'],
    ["xpath/(//button)[last()]"],
    ["text/Save"],
]
EVERY: tuple[Any, ...] = (
    Click(x=1, y=2, button="right"),
    DoubleClick(x=1, y=2),
    Type(text="Hé\n"),
    Key(keys="Control+a"),
    Scroll(x=1, y=2, dy=3),
    Drag(x=1, y=2, to_x=3, to_y=4),
    Hover(x=1, y=2),
    Wait(seconds=30),
    Navigate(url="http://a/b"),
    Back(),
    Done(text="so"),
    CallUser(text="help"),
    ClickElement(clicks=2, modifiers=("Shift",)),
    ClickElement(clicks=3),
    HoverElement(),
    ScrollTo(x=0, y=9),
    Fill(value="x"),
    KeyDown(key="a"),
    KeyUp(key="a"),
    Resize(size=Size(width=300, height=200)),
    WaitFor(visible=False),
    WaitFor(text="x"),
    WaitFor(expression="1", timeout_s=600),
    Forward(),
    Reload(),
    OpenTab(),
    SwitchTab(index=1),
    CloseTab(),
    Unsupported(what="a miracle"),
)


def exported(
    tmp_path: Path, *actions: Any, target: ElementTarget | None = BUTTON
) -> tuple[Flow, tuple[str, ...]]:
    steps = tuple(
        StepLine(index=index, url="http://a/", performed=action, target=target)
        for index, action in enumerate(actions)
    )
    size = Size(width=640, height=480)
    taken = Taken(format="other", viewport=size, steps=steps, url="http://a/", task="Save it")
    given = give(read_recording(write_taken(tmp_path, "r", taken)))
    flow = json.loads(given.files["r.json"])
    check_flow(flow)
    return flow, given.lost


@pytest.mark.parametrize("target", [BUTTON, None], ids=["element", "point"])
def test_every_action_is_in_a_flow_that_chrome_accepts_and_comes_back(
    tmp_path: Path, target: ElementTarget | None
) -> None:
    """What Chrome has no step for comes back as it was; the rest as Chrome's own of the same."""
    flow, _ = exported(tmp_path, *EVERY, target=target)
    given = [step["parameters"] for step in flow["steps"] if step["type"] == "customStep"]
    actions = [RECORDED_ACTION_ADAPTER.validate_python(one["action"]) for one in given]
    back = take_flow(flow, "r.json").steps
    for action in actions:
        assert action in EVERY
        assert (action, target) in [(step.performed, step.target) for step in back]
    custom = [action.kind for action in actions]
    assert set(custom) >= {"scroll", "drag", "back", "done", "unsupported", "open_tab"}
    if target is not None:
        assert not {"click", "hover", "key", "fill", "navigate", "wait"} & set(custom)


def test_a_recording_begins_with_its_viewport_and_its_address(tmp_path: Path) -> None:
    flow, _ = exported(tmp_path, Click(x=1, y=2))
    assert flow["title"] == "Save it"
    assert flow["steps"][:2] == [
        {
            "type": "setViewport",
            "width": 640,
            "height": 480,
            "deviceScaleFactor": 1,
            "isMobile": False,
            "hasTouch": False,
            "isLandscape": True,
        },
        {"type": "navigate", "url": "http://a/"},
    ]


def test_a_click_has_the_elements_selectors_and_a_point_in_it(tmp_path: Path) -> None:
    flow, lost = exported(tmp_path, Click(x=30, y=25))
    click = flow["steps"][-1]
    assert click["selectors"] == SELECTORS
    assert (click["offsetX"], click["offsetY"], click["button"]) == (20, 5, "primary")
    assert lost == ("step 0: a selector with a number has no equal in Chrome",)


def test_a_click_on_no_element_is_a_step_of_ours_and_told(tmp_path: Path) -> None:
    flow, lost = exported(tmp_path, Click(x=30, y=25), target=None)
    assert flow["steps"][-1] == {
        "type": "customStep",
        "name": "agentserve",
        "parameters": {"action": {"kind": "click", "x": 30, "y": 25, "button": "left"}},
    }
    assert lost == ("step 0: click is a custom step, which Chrome itself goes by",)


def test_typing_is_keys_which_add_to_what_stands_there(tmp_path: Path) -> None:
    flow, _ = exported(tmp_path, Type(text="Hi\n"), Key(keys="Control+Shift+a"))
    keys = [(step["type"][3:], step["key"]) for step in flow["steps"][2:]]
    assert keys[:6] == [
        ("Down", "H"), ("Up", "H"), ("Down", "i"), ("Up", "i"), ("Down", "Enter"), ("Up", "Enter"),
    ]  # fmt: skip
    assert keys[6:] == [
        ("Down", "Control"), ("Down", "Shift"), ("Down", "a"), ("Up", "a"), ("Up", "Shift"),
        ("Up", "Control"),
    ]  # fmt: skip


def test_what_nothing_was_done_in_is_told(tmp_path: Path) -> None:
    _, lost = exported(tmp_path, None, Click(x=1, y=2), target=None)
    assert "step 0: nothing was done" in lost
