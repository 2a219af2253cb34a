"""Recordings for Chrome's Recorder."""

from __future__ import annotations

import json
from dataclasses import replace
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
from agentserve.core.sessions import Outcome
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
    tmp_path: Path, *actions: Any, target: ElementTarget | None = BUTTON, **step: Any
) -> tuple[Flow, tuple[str, ...]]:
    steps = tuple(
        StepLine(index=index, url="http://a/", performed=action, target=target, **step)
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
        assert not {"click", "hover", "fill", "navigate", "wait"} & set(custom)


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
    flow, _ = exported(tmp_path, Type(text="Hi\n"), Key(keys="Control+Shift+a"), target=None)
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


def customs(flow: Flow) -> list[str]:
    given = [step["parameters"] for step in flow["steps"] if step["type"] == "customStep"]
    return [parameters["action"]["kind"] for parameters in given]


@pytest.mark.parametrize(
    ("actions", "goes"),
    [
        ((Click(x=1, y=2), Navigate(url="http://a/b")), True),
        ((Resize(size=Size(width=9, height=9)), Click(x=1, y=2), Navigate(url="http://b/")), True),
        ((Navigate(url="http://a/b"), Click(x=1, y=2)), False),
        ((Resize(size=Size(width=9, height=9)), Navigate(url="http://a/b")), False),
    ],
)
def test_a_flow_goes_to_its_address_unless_it_begins_by_going_somewhere(
    tmp_path: Path, actions: tuple[Any, ...], goes: bool
) -> None:
    flow, _ = exported(tmp_path, *actions)
    assert ({"type": "navigate", "url": "http://a/"} in flow["steps"]) == goes


def test_keys_for_an_element_that_has_not_got_the_focus(tmp_path: Path) -> None:
    """Typing clicks it first; a key does not, since a click may be what the key is to do."""
    flow, lost = exported(tmp_path, Type(text="a"), Type(text="b"))
    kinds = [step["type"] for step in flow["steps"][2:]]
    assert kinds == ["click", "keyDown", "keyUp", "keyDown", "keyUp"]
    assert "step 0: it clicks the element before it types: keys of Chrome have none" in lost
    assert any(told.startswith("step 1: keys of Chrome have no element") for told in lost)
    for number, act in enumerate((Key(keys="Enter"), KeyDown(key="a"), KeyUp(key="a"))):
        flow, lost = exported(tmp_path / str(number), act)
        assert customs(flow) == [act.kind] and any("custom step" in told for told in lost)
        flow, _ = exported(tmp_path / f"{number} after", ClickElement(), act)
        assert customs(flow) == []
    flow, _ = exported(tmp_path / "no key", KeyDown(key="é"), target=None)
    assert customs(flow) == ["key_down"]


def test_what_is_done_in_another_tab_is_no_step_of_the_first(tmp_path: Path) -> None:
    click = ClickElement()
    acts = (OpenTab(), click, SwitchTab(index=0), click, SwitchTab(index=1), CloseTab(), click)
    flow, lost = exported(tmp_path, *acts)
    assert customs(flow) == [
        "open_tab", "click_element", "switch_tab", "switch_tab", "close_tab",
    ]  # fmt: skip
    assert [step["type"] for step in flow["steps"][-1:]] == ["click"]
    assert "steps 1, 5: it is done in another tab than the first" in lost
    back = [step.performed for step in take_flow(flow, "r.json").steps]
    assert [act for act in back if act.kind in ("open_tab", "switch_tab", "close_tab")] == [
        act for act in acts if act is not click
    ]


@pytest.mark.parametrize(("seconds", "parts"), [(1, [1000]), (29, [29_000]), (30, [29_000, 1000])])
def test_a_pause_ends_before_chrome_gives_up(
    tmp_path: Path, seconds: int, parts: list[int]
) -> None:
    flow, _ = exported(tmp_path, Wait(seconds=seconds))
    waits = flow["steps"][2:]
    assert [int(step["expression"].rpartition(" ")[2].rstrip(")")) for step in waits] == parts
    assert all(step["timeout"] == part + 1000 for step, part in zip(waits, parts, strict=True))


def test_a_longer_wait_than_chrome_has_is_told(tmp_path: Path) -> None:
    acts = (WaitFor(timeout_s=120), WaitFor(expression="1", timeout_s=600), WaitFor(timeout_s=30))
    _, lost = exported(tmp_path, *acts)
    assert [told for told in lost if "at most" in told] == [
        "step 0: Chrome waits 30 s at most, not 120 s",
        "step 1: Chrome waits 30 s at most, not 600 s",
    ]


def test_a_whole_text_that_chrome_takes_for_a_part_is_told(tmp_path: Path) -> None:
    target = ElementTarget(selectors=((Selector(engine="text", value="Save"),),), offset=(1, 2))
    _, lost = exported(tmp_path, HoverElement(), target=target)
    assert lost == (
        "step 0: Chrome finds a text also as a part of a longer one",
        "step 0: Chrome hovers over the middle of an element",
    )


def test_long_texts_give_no_more_steps_than_we_take_over(tmp_path: Path) -> None:
    short, long = Type(text="x" * 20), Type(text="x" * 2000)
    flow, lost = exported(tmp_path, long, short, long, target=None)
    assert customs(flow) == ["type", "type"] and "steps 0, 2: type is a custom step" in lost[0]
    back = take_flow(flow, "r.json").steps
    assert [step.performed for step in back].count(long) == 2
    flow, _ = exported(tmp_path / "one", long, target=None)
    assert customs(flow) == [] and len(flow["steps"]) == 4002
    many = [Wait(seconds=30)] * 2600
    _, lost = exported(tmp_path / "many", *many, target=None)
    assert lost == ("it has 5202 steps, and agentserve imports 5000 at most",)


def test_what_failed_then_is_told(tmp_path: Path) -> None:
    failed = Outcome(status="failed", message="no such element")
    _, lost = exported(tmp_path, HoverElement(), outcome=failed)
    assert "step 0: it failed when it was recorded, and is done all the same" in lost


def test_secrets_are_told_and_typed_by_a_step_of_ours(tmp_path: Path) -> None:
    word = "{{secret:PASSWORD}}"
    acts = (Fill(value=word), Type(text=word), Navigate(url=f"http://a/?q={word}"))
    flow, lost = exported(tmp_path, *acts)
    assert customs(flow) == ["type"]
    stands = "the secret PASSWORD stands in it as {{secret:PASSWORD}}"
    assert f"steps 0, 2: {stands}, for which Chrome fills in nothing" in lost
    assert {Type(text=word), Fill(value=word)} < {
        step.performed for step in take_flow(flow, "r.json").steps
    }


def test_an_address_is_as_seen_from_its_page(tmp_path: Path) -> None:
    flow, _ = exported(tmp_path, Click(x=1, y=2), Navigate(url="b.html"))
    assert flow["steps"][-1]["url"] == "http://a/b.html"


def test_a_step_of_chrome_whose_tab_is_not_known_any_more_is_told(tmp_path: Path) -> None:
    steps = [
        {"type": "navigate", "target": tab, "url": "http://a/"} for tab in ("main", "http://a/b")
    ]
    taken = take_flow({"title": "t", "steps": steps}, "t.json")
    whole = give(read_recording(write_taken(tmp_path, "whole", taken)))
    assert json.loads(whole.files["whole.json"])["steps"] == steps and whole.lost == ()
    cut = tuple(step.model_copy(update={"origin": None}) for step in taken.steps)
    given = give(read_recording(write_taken(tmp_path, "cut", replace(taken, steps=cut))))
    (step,) = json.loads(given.files["cut.json"])["steps"]
    assert step["target"] == "main"
    assert "step 2: nothing tells what Chrome called its tab: left out" in given.lost


def test_where_the_page_is_at_every_step_comes_back(tmp_path: Path) -> None:
    """Also behind a step that Chrome goes by, and behind a start that leads elsewhere."""
    acts: tuple[tuple[Any, str], ...] = (
        (ClickElement(), "http://a/login"),
        (Key(keys="Enter"), "http://a/home"),
        (Drag(x=1, y=2, to_x=3, to_y=4), "http://a/list"),
        (Navigate(url="/map"), "http://a/list#moved"),
        (Type(text="a\n"), "http://a/map"),
        (Wait(seconds=1), "http://a/map"),
        (Done(text="so"), "http://a/end"),
    )
    steps = tuple(
        StepLine(index=i, url=url, performed=act, target=BUTTON if i == 0 else None)
        for i, (act, url) in enumerate(acts)
    )
    taken = Taken(format="other", viewport=Size(width=9, height=9), steps=steps, url="http://a")
    given = give(read_recording(write_taken(tmp_path, "r", taken)))
    flow = json.loads(given.files["r.json"])
    check_flow(flow)
    said = {
        event["url"]: step["type"]
        for step in flow["steps"]
        for event in step.get("assertedEvents", ())
    }
    assert said == {
        "http://a/login": "navigate",
        "http://a/home": "click",
        "http://a/list": "keyDown",
        "http://a/end": "waitForExpression",
    }
    again = take_flow(flow, "r.json").steps
    urls = [step.url for step in again if step.performed != Key(keys="a")]  # of the text's two
    assert urls == ["", "", *(url for _, url in acts)]
