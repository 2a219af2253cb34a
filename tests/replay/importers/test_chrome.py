"""Flows of Chrome's Recorder as recordings."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from replay.flows import check_flow, every_step

from agentserve.core.actions import Key, Navigate
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
    Unsupported,
    WaitFor,
)
from agentserve.core.elements import Selector
from agentserve.core.errors import RecordingError
from agentserve.core.screens import Size
from agentserve.replay import read_recording
from agentserve.replay.exporters import chrome as exporter
from agentserve.replay.importers.chrome import take, take_flow
from agentserve.replay.importers.sources import MAX_JSON_BYTES
from agentserve.replay.importers.taken import MAX_STEPS, Taken, write_taken

BASE = "http://127.0.0.1:8000"


def taken_of(*steps: dict[str, Any]) -> Taken:
    return take_flow({"title": "t", "steps": list(steps)}, "flow.json")


def with_step(**fields: Any) -> dict[str, Any]:
    return {"type": "click", "selectors": [["#a"]], "offsetX": 1, "offsetY": 1, **fields}


def test_every_step_becomes_the_action_that_says_the_same() -> None:
    taken = take_flow(every_step(BASE), "flow.json")
    assert [step.performed for step in taken.steps] == [
        Resize(size=Size(width=1120, height=672)),
        Navigate(url=f"{BASE}/login.html"),
        ClickElement(),
        Fill(value="ada@example.com"),
        Key(keys="Control+a"),
        Key(keys="Tab"),
        KeyDown(key="Shift"),
        KeyDown(key="A"),
        KeyUp(key="A"),
        KeyUp(key="Shift"),
        ClickElement(button="right", clicks=2),
        HoverElement(),
        ScrollTo(x=0, y=250.5),
        ScrollTo(x=3, y=4),
        WaitFor(timeout_s=4),
        WaitFor(visible=False, timeout_s=4),
        Unsupported(what="waiting for <= 2 elements"),
        WaitFor(expression="document.readyState === 'complete'", timeout_s=4),
        Unsupported(what="emulating the conditions of a network"),
        Unsupported(what="the custom step 'lighthouse'"),
        SwitchTab(index=1),
        Unsupported(what="a click of the button 'back'"),
        CloseTab(),
    ]
    assert [step.index for step in taken.steps] == list(range(len(taken.steps)))
    assert taken.viewport == Size(width=1120, height=672)
    assert (taken.task, taken.url) == ("Sign in", f"{BASE}/login.html")


def test_addresses_follow_navigations_and_what_chrome_asserts_of_them() -> None:
    steps = take_flow(every_step(BASE), "flow.json").steps
    assert [step.url for step in steps[:3]] == ["", "", f"{BASE}/login.html"]
    assert steps[-1].url == f"{BASE}/tables.html"


def test_where_a_navigation_ended_is_the_pages_address_also_behind_the_last_step() -> None:
    """A site may lead elsewhere from the address that it was gone to at."""
    asserted = [{"type": "navigation", "url": f"{BASE}/login?next=%2F"}]
    taken = taken_of(
        {"type": "navigate", "url": BASE},
        with_step(),
        {"type": "navigate", "url": f"{BASE}/", "assertedEvents": asserted},
        with_step(assertedEvents=[{"type": "navigation", "url": f"{BASE}/home"}]),
    )
    assert [step.url for step in taken.steps] == [
        "", f"{BASE}/", f"{BASE}/", f"{BASE}/login?next=%2F", f"{BASE}/home",
    ]  # fmt: skip
    assert taken.steps[-1].performed is None and taken.url == BASE and not taken.lost
    assert taken_of(with_step(), with_step()).steps[-1].performed is not None


def test_each_tab_has_the_address_of_its_own_page() -> None:
    taken = taken_of(
        {"type": "navigate", "url": f"{BASE}/a"},
        with_step(target=f"{BASE}/b"),
        with_step(target="main"),
        with_step(target="popup"),
        {"type": "close", "target": "popup"},
        with_step(target="popup"),
    )
    assert [(step.performed.kind, step.url) for step in taken.steps] == [
        ("navigate", ""), ("switch_tab", ""), ("click_element", f"{BASE}/b"), ("switch_tab", ""),
        ("click_element", f"{BASE}/a"), ("switch_tab", ""), ("click_element", ""),
        ("close_tab", ""), ("click_element", ""),
    ]  # fmt: skip


def test_selectors_keep_their_engines_their_order_and_the_offset() -> None:
    steps = take_flow(every_step(BASE), "flow.json").steps
    target = steps[2].target
    assert target is not None and target.offset == (40.5, 7)
    assert target.selectors == (
        (Selector(engine="aria", value="E-mail"),),
        (Selector(engine="css", value="#email"),),
        (Selector(engine="xpath", value='//*[@id="email"]'),),
        (Selector(engine="css", value="#email"),),
        (Selector(engine="text", value="Your e-mail", exact=False),),
        (Selector(engine="aria", value="", role="textbox"),),
    )


def test_frames_and_shadow_roots_become_chains() -> None:
    target = take_flow(every_step(BASE), "flow.json").steps[10].target
    assert target is not None
    frames = (
        Selector(engine="xpath", value="(//iframe | //frame)[1]"),
        Selector(engine="xpath", value="(//iframe | //frame)[3]"),
    )
    css = (Selector(engine="css", value="#outer"), Selector(engine="css", value="#inner"))
    button = (Selector(engine="aria", value="Sign in", role="button"),)
    assert target.selectors == ((*frames, *css), (*frames, *button))


def test_what_has_no_equal_is_told_with_its_step() -> None:
    lost = take_flow(every_step(BASE), "flow.json").lost
    for sentence in (
        "step 1: the title that the page has then is not checked",
        "step 10: a 'touch' became the mouse",
        "step 14: waits for one element, not for >= 3",
        "step 18: emulating the conditions of a network has no equal",
        "step 19: the custom step 'lighthouse' has no equal",
        "step 21: a click of the button 'back' has no equal",
    ):
        assert any(told.startswith(sentence) for told in lost), (sentence, lost)


def test_a_flow_that_goes_through_a_bundle_comes_back_whole(tmp_path: Path) -> None:
    source = tmp_path / "flow.json"
    source.write_text(json.dumps(every_step(BASE)))
    folder = write_taken(tmp_path / "recordings", "sign-in", take(source))
    given = exporter.give(read_recording(folder))
    flow = json.loads(given.files["sign-in.json"])
    assert flow == every_step(BASE)
    assert given.lost == ()
    check_flow(flow)


def test_one_flaw_of_many_steps_is_told_once() -> None:
    taken = taken_of(*(with_step(deviceType="pen") for _ in range(20)))
    assert taken.lost == ("steps 0, 1, 2, 3, 4, 5, 6, 7 and 12 more: a 'pen' became the mouse",)


@pytest.mark.parametrize(
    ("keys", "performed"),
    [
        ("v:Enter ^:Enter", [Key(keys="Enter")]),
        ("v:Shift v:Control v:a ^:a ^:Shift ^:Control", [Key(keys="Shift+Control+a")]),
        ("v:a v:b ^:a ^:b", [KeyDown(key="a"), KeyDown(key="b"), KeyUp(key="a"), KeyUp(key="b")]),
        ("v:Control v:Control ^:Control ^:Control",
         [KeyDown(key="Control"), KeyDown(key="Control"), KeyUp(key="Control"),
          KeyUp(key="Control")]),
        ("v:Shift v:a ^:a", [KeyDown(key="Shift"), Key(keys="a")]),
        ("^:a", [KeyUp(key="a")]),
        ("v:\n ^:\n", [Key(keys="Enter")]),
    ],
)  # fmt: skip
def test_keys_become_chords_only_where_they_are_some(keys: str, performed: list[Any]) -> None:
    kinds = {"v": "keyDown", "^": "keyUp"}
    steps = [{"type": kinds[text[0]], "key": text[2:]} for text in keys.split(" ")]
    assert [step.performed for step in taken_of(*steps).steps] == performed


@pytest.mark.parametrize(
    ("step", "words"),
    [
        ({"type": "teleport"}, "'teleport' is no step"),
        ({"type": 7}, "type must be a text, not 7"),
        ({}, "type is missing"),
        ("click", "an object belongs here"),
        (with_step(selectors="#a"), "selectors must be a list"),
        (with_step(selectors=[[1]]), "a list of texts"),
        (with_step(offsetX="1"), "offsetX must be a number"),
        (with_step(offsetX=1e999), "not JSON"),
        (with_step(frame=["x"]), "the numbers of frames"),
        (with_step(frame=[10**9]), "the numbers of frames"),
        (with_step(frame=[0] * 20), "the numbers of frames"),
        (with_step(assertedEvents=[{"type": "explosion"}]), "type must be 'navigation'"),
        ({"type": "navigate", "url": "x" * 2001}, "url"),
        ({"type": "setViewport", "width": 10**9, "height": 1}, "width must be a whole number"),
        ({"type": "setViewport", "width": 1, "height": 1, "deviceScaleFactor": 0}, "above 0"),
        ({"type": "change", "selectors": [["#a"]], "value": "x" * 100_001}, "value"),
        ({"type": "keyDown", "key": "x" * 60}, "the name of a key"),
        ({"type": "customStep", "name": "agentserve", "parameters": {"action": 1}}, "no action"),
        ({"type": "waitForElement", "selectors": [], "count": 1.5}, "whole number"),
    ],
    ids=lambda value: value if isinstance(value, str) else None,
)  # fmt: skip
def test_a_wrong_step_is_refused_with_its_number(tmp_path: Path, step: Any, words: str) -> None:
    flow = tmp_path / "flow.json"
    flow.write_text(json.dumps({"title": "t", "steps": [with_step(), step]}))
    with pytest.raises(RecordingError) as failure:
        take(flow)
    assert words in failure.value.message
    assert failure.value.message.startswith("flow.json: ")
    assert "step 1" in failure.value.message or "not JSON" in failure.value.message


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "not JSON"),
        (b"[]", "a JSON object is expected, not list"),
        (b"\xff\xfe", "not JSON"),
        (b'{"title": "t"}', "steps is missing"),
        (b'{"steps": []}', "title is missing"),
        (b'{"title": "t", "steps": {}}', "steps must be a list"),
        (b'{"title":"t","steps":' + b"[" * 100_000, "not JSON"),
        (b'{"title":"t","steps":[' + b'{"a":' * 45 + b"1" + b"}" * 45 + b"]}", "nested deeper"),
        (b'{"title":"t","steps":[' + b"1," * MAX_STEPS + b"1]}", f"{MAX_STEPS} is most"),
        (b" " * (MAX_JSON_BYTES + 1), "larger than"),
    ],
    ids="empty list bytes stepless untitled object deep nested many big".split(),
)  # fmt: skip
def test_what_is_no_flow_is_refused(tmp_path: Path, data: bytes, words: str) -> None:
    source = tmp_path / "flow.json"
    source.write_bytes(data)
    with pytest.raises(RecordingError) as failure:
        take(source)
    assert words in failure.value.message and "flow.json" in failure.value.message


def test_selectors_that_cannot_be_used_are_told_and_the_others_tried() -> None:
    taken = taken_of(with_step(selectors=[["x" * 3000], [""], [], ["#a"], ["#b"] * 20]))
    (step,) = taken.steps
    assert step.target is not None
    assert step.target.selectors == ((Selector(engine="css", value="#a"),),)
    assert sum("has no equal" in told for told in taken.lost) == 4


def test_a_step_too_large_to_be_kept_is_told(tmp_path: Path) -> None:
    taken = taken_of(with_step(title="x" * 300_000))
    assert taken.steps[0].origin is None
    (told,) = taken.lost
    assert told.startswith("step 0: the source's own step, of 3") and "too large" in told
    write_taken(tmp_path, "large", taken)
    assert read_recording(tmp_path / "large").steps == taken.steps


def test_a_title_that_is_cut_and_a_wait_without_end_are_told() -> None:
    wait = {"type": "waitForElement", "selectors": [["#a"]], "timeout": 0}
    taken = take_flow({"title": "x" * 8001, "steps": [wait]}, "flow")
    assert taken.steps[0].performed == WaitFor(timeout_s=600)
    assert set(taken.lost) == {
        "the task has 8001 characters, 8000 are kept",
        "step 0: a wait without end ends after 600 s",
    }


def test_what_our_own_export_had_no_action_for_is_told_again() -> None:
    action = {"kind": "unsupported", "what": "choosing files"}
    step = {"type": "customStep", "name": "agentserve", "parameters": {"action": action}}
    taken = take_flow({"title": "", "steps": [step]}, "flow")
    assert taken.lost == (
        "step 0: choosing files has no equal; a replay stops there unless told to go by",
    )
