"""Lines of codegen, of the installed Playwright's recorder and of others."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from replay.importers.conftest import Made

from agentserve.core.actions import Key, Navigate
from agentserve.core.actions.recorded import (
    ClickElement,
    CloseTab,
    Fill,
    HoverElement,
    KeyDown,
    KeyUp,
    OpenTab,
    SwitchTab,
    Unsupported,
    WaitFor,
)
from agentserve.core.elements import Selector
from agentserve.core.errors import RecordingError
from agentserve.core.screens import Size
from agentserve.replay import read_recording
from agentserve.replay.importers.detect import take as take_any
from agentserve.replay.importers.playwright_codegen import take, take_lines
from agentserve.replay.importers.taken import MAX_STEPS, Taken, write_taken

HEADER = {"browserName": "chromium", "launchOptions": {}, "contextOptions": {}}


def lines(*actions: Any, header: Any = HEADER) -> bytes:
    return b"".join(json.dumps(line).encode() + b"\n" for line in (header, *actions))


def taken_of(*actions: Any) -> Taken:
    page = {"signals": [], "pageGuid": "page@1"}
    return take_lines(lines(*({**page, **action} for action in actions)), "made.jsonl")


def test_what_the_installed_recorder_wrote(made: Made, tmp_path: Path) -> None:
    taken = take_any(made.codegen)
    performed = [step.performed for step in taken.steps]
    assert performed[0] == Navigate(url=f"{made.base}/login.html")
    assert Fill(value="ada@example.com") in performed and Fill(value="secret") in performed
    assert Key(keys="Tab") in performed and Fill(value="true") in performed
    assert performed[-1] == ClickElement()
    last = taken.steps[-1].target
    assert last is not None and last.selectors == (
        (Selector(engine="aria", role="link", value="Forgot Password?", exact=False),),
    )
    assert taken.viewport == Size(width=1120, height=672)
    assert (taken.url, taken.lost) == (f"{made.base}/login.html", ())
    assert {step.url for step in taken.steps[1:]} == {f"{made.base}/login.html"}
    folder = write_taken(tmp_path, "made", taken)
    assert read_recording(folder).steps == taken.steps


@pytest.mark.parametrize(
    ("action", "performed"),
    [
        ({"name": "click", "button": "right", "clickCount": 2, "modifiers": 10},
         [ClickElement(button="right", clicks=2, modifiers=("Control", "Shift"))]),
        ({"name": "click", "clickCount": 5}, [Unsupported(what="5 clicks of the button 'left'")]),
        ({"name": "hover"}, [HoverElement()]),
        ({"name": "fill", "text": "x"}, [Fill(value="x")]),
        ({"name": "check"}, [Fill(value="true")]),
        ({"name": "uncheck"}, [Fill(value="false")]),
        ({"name": "press", "key": "a", "modifiers": 2}, [Key(keys="Control+a")]),
        ({"name": "press", "key": "+", "modifiers": 2},
         [KeyDown(key="Control"), KeyDown(key="+"), KeyUp(key="+"), KeyUp(key="Control")]),
        ({"name": "select", "options": ["b"]}, [Fill(value="b")]),
        ({"name": "select", "options": ["a", "b"]},
         [Unsupported(what="selecting none or several options")]),
        ({"name": "setInputFiles", "files": ["/etc/passwd"]},
         [Unsupported(what="choosing files")]),
        ({"name": "assertVisible"}, [WaitFor()]),
        ({"name": "assertText", "text": "Hi", "substring": True}, [WaitFor(text="Hi")]),
        ({"name": "assertValue", "value": "Hi"}, [WaitFor(value="Hi")]),
        ({"name": "assertChecked", "checked": False}, [WaitFor(value="false")]),
        ({"name": "assertSnapshot", "ariaSnapshot": "- button"},
         [Unsupported(what="comparing an aria snapshot")]),
    ],
    ids=lambda value: value["name"] if isinstance(value, dict) else "",
)  # fmt: skip
def test_actions_of_every_name(action: dict[str, Any], performed: list[Any]) -> None:
    taken = taken_of({"selector": "#a", **action})
    assert [step.performed for step in taken.steps] == performed
    target = taken.steps[0].target
    assert target is not None and target.selectors == ((Selector(engine="css", value="#a"),),)
    assert any(isinstance(action, Unsupported) for action in performed) == bool(taken.lost)


def test_positions_are_offsets_in_the_element() -> None:
    (step,) = taken_of({"name": "click", "selector": "canvas", "position": {"x": 3, "y": 4}}).steps
    assert step.target is not None and step.target.offset == (3, 4)


def test_tabs_are_switched_when_another_page_is_acted_on() -> None:
    popup = {"name": "popup", "popupAlias": "page1", "popupPageGuid": "page@2"}
    taken = taken_of(
        {"name": "openPage", "url": "about:blank"},
        {"name": "navigate", "url": "http://a/"},
        {"name": "click", "selector": "#a", "signals": [popup]},
        {"name": "click", "selector": "#b", "pageGuid": "page@2"},
        {"name": "click", "selector": "#c"},
        {"name": "openPage", "url": "http://b/", "pageGuid": "page@3"},
        {"name": "closePage", "pageGuid": "page@3"},
        {"name": "click", "selector": "#d"},
    )
    click = ClickElement()
    assert [step.performed for step in taken.steps] == [
        Navigate(url="http://a/"),
        click,
        click,
        SwitchTab(index=0),
        click,
        OpenTab(url="http://b/"),
        CloseTab(),
        SwitchTab(index=0),
        click,
    ]


def test_navigations_that_actions_brought_about_are_the_next_steps_address() -> None:
    went = {"name": "navigation", "url": "http://a/next"}
    taken = taken_of(
        {"name": "click", "selector": "#a", "signals": [went, {"name": "dialog"}]},
        {"name": "click", "selector": "#b"},
    )
    assert [step.url for step in taken.steps] == ["", "http://a/next"]
    assert taken.lost == ("step 0: how its dialog was answered",)


def test_passwords_and_cookies_of_the_browsers_options_are_told_and_not_kept() -> None:
    options = {
        "httpCredentials": {"username": "ada", "password": "hunter2"},
        "storageState": {"cookies": [{"value": "hunter2"}]},
        "extraHTTPHeaders": {"Authorization": "hunter2"},
        "locale": "de",
    }
    launch = {"proxy": {"server": "http://p", "password": "hunter2"}, "headless": False}
    header = {**HEADER, "contextOptions": options, "launchOptions": launch}
    taken = take_lines(lines({"name": "navigate", "url": "http://a/"}, header=header), "made")
    assert taken.data == {
        **HEADER, "contextOptions": {"locale": "de"}, "launchOptions": {"headless": False},
    }  # fmt: skip
    (told,) = taken.lost
    assert "extraHTTPHeaders, httpCredentials, storageState" in told and "hunter2" not in told


def test_where_the_last_action_led_is_kept_and_a_signal_that_is_not_known_is_told() -> None:
    went = {"name": "navigation", "url": "http://a/next"}
    taken = taken_of(
        {"name": "navigate", "url": "http://a"},
        {"name": "click", "selector": "#a", "signals": [went, {"name": "earthquake"}]},
    )
    assert [step.url for step in taken.steps] == ["", "http://a/", "http://a/next"]
    assert taken.steps[-1].performed is None
    assert taken.lost == ("step 1: its signal 'earthquake'",)


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "browserName is missing"),
        (lines(header={}), "line 1: browserName is missing"),
        (lines(header={**HEADER, "contextOptions": {"viewport": {"width": 0, "height": 1}}}),
         "width must be a whole number"),
        (lines({"name": "levitate"}), "line 2: 'levitate' is no action of codegen"),
        (lines({"name": "click"}), "line 2: selector is missing"),
        (lines({"name": "click", "selector": "#a", "modifiers": 99}), "modifiers must be"),
        (lines({"name": "press", "selector": "#a", "key": "", "modifiers": 0}), "key must be"),
        (lines({"name": "navigate", "url": 3}), "line 2: url must be a text"),
        (lines([1]), "line 2: a JSON object is expected"),
        (lines() + b"{" + b"\n", "line 2: not JSON"),
        (lines() + b"\n" * (MAX_STEPS + 3), f"more than {MAX_STEPS + 2} lines"),
    ],
)  # fmt: skip
def test_what_codegen_does_not_write_is_refused_with_its_line(
    tmp_path: Path, data: bytes, words: str
) -> None:
    path = tmp_path / "made.jsonl"
    path.write_bytes(data)
    with pytest.raises(RecordingError) as failure:
        take(path)
    assert words in failure.value.message and "made.jsonl" in failure.value.message


def test_what_the_browser_emulated_is_told() -> None:
    context = {"locale": "de-DE", "isMobile": True, "deviceScaleFactor": 2}
    data = lines({"name": "navigate", "url": "http://a/"},
                 header={**HEADER, "contextOptions": context})  # fmt: skip
    taken = take_lines(data, "made.jsonl")
    assert taken.scale == 2
    assert taken.lost == ("the browser's options isMobile, locale: a replay has its own",)
