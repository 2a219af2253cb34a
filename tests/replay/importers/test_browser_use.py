"""``fixtures/browser_use`` was recorded by browser-use 0.13.14 itself, driving Chromium on the
admin scenario's sign-in task with a scripted model; its screenshots have fewer colours since."""

import base64
import hashlib
import json
from pathlib import Path
from typing import Any

import pytest
from replay.replay_builders import make_png

from agentserve.core.actions import Back, Click, Done, Key, Navigate, Scroll, Type, Wait
from agentserve.core.actions.recorded import (
    ClickElement,
    CloseTab,
    Fill,
    OpenTab,
    SwitchTab,
    Unsupported,
)
from agentserve.core.elements import ElementTarget, PageBox, Selector
from agentserve.core.errors import RecordingError
from agentserve.core.screens import Size
from agentserve.replay import read_recording
from agentserve.replay.importers import browser_use
from agentserve.replay.importers.browser_use_elements import element_of
from agentserve.replay.importers.taken import write_taken

RECORDED = Path(__file__).with_name("fixtures") / "browser_use"


def test_a_history_that_browser_use_wrote():
    taken = browser_use.take(RECORDED)
    assert taken.viewport == Size(width=1120, height=672)
    assert [step.performed for step in taken.steps] == [
        Navigate(url="http://127.0.0.1:18931/login.html"),
        Fill(value="ada@example.com"),
        Fill(value="analytical"),
        ClickElement(),
        ClickElement(),
        Scroll(x=560, y=336, dy=336),
        Key(keys="Control+Home"),
        Wait(seconds=1),
        Done(text="Signed in as ada@example.com."),
    ]
    assert [step.screenshot is not None for step in taken.steps] == [
        False, True, False, True, True, True, False, False, True,
    ]  # fmt: skip
    assert taken.lost == (
        "the viewport in CSS px is not said: the pictures' 1120x672 is taken for it. On a screen "
        "of another device pixel ratio than 1, scrolled pages and points are too large",
    )
    # the new tab that it began with is no page: a replay begins with the first one
    assert taken.url == "http://127.0.0.1:18931/login.html"
    assert [step.url for step in taken.steps[:2]] == ["", taken.url]
    assert taken.task.startswith("Sign in with the e-mail address ada@example.com")
    assert taken.end is not None and (taken.end.end, taken.end.success) == ("done", True)
    assert taken.created_at is not None and taken.created_at.year == 2026
    assert taken.steps[3].outcome.status == "ok" and taken.steps[3].step_ms > 0
    assert "Sign in" in taken.steps[3].thought


def test_its_elements_can_be_found_again():
    login = browser_use.take(RECORDED).steps[3].target
    assert login == ElementTarget(
        selectors=(
            (Selector(engine="aria", role="link", value="Login"),),
            (Selector(engine="css", value='a[href="index.html"]'),),
            (
                Selector(
                    engine="xpath",
                    value="/html/body/div[1]/div/div/div/div/div/div[2]/div/form/a[1]",
                ),
            ),
        ),
        box=PageBox(x=612.5, y=320.796875, width=348.0, height=45.1875),
        offset=(174.0, 22.59375),
        tag="a",
        text="Login",
    )


def test_all_of_it_is_kept_for_an_export():
    steps = browser_use.take(RECORDED).steps
    items = [step.origin["item"] for step in steps if "item" in step.origin]
    assert {"history": items} == json.loads((RECORDED / "history.json").read_text())


def test_it_becomes_a_bundle_that_reads(tmp_path):
    taken = browser_use.take(RECORDED / "history.json")
    recording = read_recording(write_taken(tmp_path, "bundle", taken))
    assert [step.performed for step in recording.steps] == [one.performed for one in taken.steps]
    assert [step.target for step in recording.steps] == [one.target for one in taken.steps]
    assert recording.meta.imported and recording.meta.imported.format == "browser-use"


ELEMENT = {
    "node_name": "SELECT",
    "attributes": {"name": 'a"b\\c'},
    "x_path": "html/body/select",
    "bounds": {"x": 10, "y": 20, "width": 30, "height": 10},
    "ax_name": None,
}


def item(*actions: dict[str, Any], results: list[Any] | None = None, **state: Any) -> dict:
    elements = state.pop("elements", [None] * len(actions))
    return {
        "model_output": {"next_goal": "Go on", "action": list(actions)},
        "result": [{} for _ in actions] if results is None else results,
        "state": {"url": "http://a.test/", "interacted_element": elements, **state},
        "metadata": {"step_start_time": 1.0, "step_end_time": 2.5, "step_number": 1},
    }


def taken_of(tmp_path: Path, *items: Any):
    (tmp_path / "history.json").write_text(json.dumps({"history": list(items)}))
    return browser_use.take(tmp_path / "history.json")


ACTIONS = [
    ({"go_to_url": {"url": "http://b.test/"}}, [Navigate(url="http://b.test/")]),
    ({"navigate": {"url": "http://b.test/", "new_tab": True}}, [OpenTab(url="http://b.test/")]),
    ({"open_tab": {"url": "http://b.test/"}}, [OpenTab(url="http://b.test/")]),
    (
        {"search": {"query": "a b&c", "engine": "google"}},
        [Navigate(url="https://www.google.com/search?q=a+b%26c&udm=14")],
    ),
    ({"search_google": {"query": "a"}}, [Navigate(url="https://www.google.com/search?q=a&udm=14")]),
    ({"go_back": {}}, [Back()]),
    ({"wait": {"seconds": 3}}, [Wait(seconds=3)]),
    ({"send_keys": {"keys": "Enter"}}, [Key(keys="Enter")]),
    ({"send_keys": {"keys": "Control+a"}}, [Key(keys="Control+a")]),
    ({"send_keys": {"keys": "ctrl+A"}}, [Key(keys="Control+a")]),
    ({"send_keys": {"keys": "cmd+shift+left"}}, [Key(keys="Shift+Meta+ArrowLeft")]),
    ({"send_keys": {"keys": "esc"}}, [Key(keys="Escape")]),
    ({"send_keys": {"keys": "F5"}}, [Key(keys="F5")]),
    *(
        ({"send_keys": {"keys": text}}, [Type(text=text)])
        for text in ("bar", "at", "less", "next", "plus", "1+1", "a+b=c", "f5", "+", "C++", "a")
    ),
    ({"send_keys": {"keys": "hello there"}}, [Type(text="hello there")]),
    ({"scroll": {"down": False, "num_pages": 2}}, [Scroll(x=640, y=360, dy=-1440)]),
    ({"scroll_down": {"amount": 300}}, [Scroll(x=640, y=360, dy=300)]),
    ({"scroll_up": {}}, [Scroll(x=640, y=360, dy=-720)]),
    ({"done": {"text": "no", "success": False}}, [Done(status="failure", text="no")]),
]


@pytest.mark.parametrize(("action", "acts"), ACTIONS, ids=lambda one: str(one)[:50])
def test_actions_also_of_older_versions(tmp_path, action, acts):
    taken = taken_of(tmp_path, item(action))
    assert [step.performed for step in taken.steps] == acts
    assert taken.lost == ("no picture tells the screen's size; 1280x720 is assumed",)


def test_a_password_field_is_known_by_its_type_or_by_what_it_completes(tmp_path):
    fields = [
        {"node_name": "INPUT", "x_path": "html/body/input", "attributes": attributes}
        for attributes in (
            {"id": "p", "type": "Password"},
            {"id": "q", "type": "text"},
            {"id": "r", "type": "text", "autocomplete": "section-a current-password"},
            {"id": 7, "type": 7, "autocomplete": []},
        )
    ]
    typed = [{"input": {"index": 1, "text": "hunter2"}}] * len(fields)
    taken = taken_of(tmp_path, item({"wait": {"seconds": 1}}), item(*typed, elements=fields))
    assert taken.passwords == (1, 3)


def test_behind_an_action_that_leaves_the_page_its_address_is_not_told(tmp_path):
    taken = taken_of(
        tmp_path,
        item({"wait": {}}, {"go_to_url": {"url": "http://b.test/"}}, {"wait": {}}),
        item({"wait": {}}, url="http://b.test/"),
    )
    assert [step.url for step in taken.steps] == [
        "http://a.test/", "http://a.test/", "", "http://b.test/",
    ]  # fmt: skip


@pytest.mark.timeout(30)
def test_a_path_of_any_length_is_refused_at_once(tmp_path):
    with pytest.raises(RecordingError, match="not the plain name of a picture"):
        taken_of(tmp_path, item({"wait": {}}, screenshot_path="x" * 1_000_000))


def test_as_many_tabs_as_a_recording_can_name_are_read(tmp_path):
    tabs = [{"target_id": f"{number:04}"} for number in range(1001)]
    last = {"switch": {"tab_id": "0999"}}
    assert taken_of(tmp_path, item(last, tabs=tabs[:1000])).steps[0].performed == SwitchTab(
        index=999
    )
    with pytest.raises(RecordingError, match="more than 1000 tabs"):
        taken_of(tmp_path, item(last, tabs=tabs))


AIMED = [
    ({"click_element_by_index": {"index": 1}}, {}, [ClickElement()]),
    ({"click": {"index": 1}}, {}, [ClickElement()]),
    ({"input_text": {"index": 1, "text": "hi"}}, {}, [Fill(value="hi")]),
    (
        {"input": {"index": 1, "text": "hi", "clear": False}},
        {},
        [Type(text="hi")],
    ),
    (
        {"select_dropdown": {"index": 1, "text": "Large"}},
        {"extracted_content": "Selected option: Large (value: l)"},
        [Fill(value="l")],
    ),
    ({"scroll": {"down": True, "pages": 1, "index": 1}}, {}, [Scroll(x=25, y=25, dy=720)]),
]


@pytest.mark.parametrize(("action", "result", "acts"), AIMED, ids=lambda one: str(one)[:50])
def test_actions_aimed_at_an_element(tmp_path, action, result, acts):
    taken = taken_of(tmp_path, item(action, results=[result], elements=[ELEMENT]))
    assert [step.performed for step in taken.steps] == acts
    assert all(step.target == element_of(ELEMENT) for step in taken.steps)
    assert len(taken.lost) == 1


LOST = [
    (item({"extract": {"query": "x"}}), None, "step 0: extract only reads"),
    (item({"evaluate": {"code": "1"}}), "unsupported", "there is no action for 'evaluate'"),
    (item({"switch": {"tab_id": "ABCD"}}), "unsupported", "switch: the tab must be a number"),
    (item({"switch_tab": {"page_id": 7}}), "unsupported", "the tab 7 is not one of 0"),
    (item({"click": {"index": 9}}), "unsupported", "step 0: click: where it was done is not told"),
    (item({"input": {"index": 9, "text": "x"}}), "unsupported", "which element it was"),
    (item({"click": {"coordinate_x": 5, "coordinate_y": 6}}), "click", "maybe resized"),
    (
        item({"click": {}}, results=[{"metadata": {"click_x": 5, "click_y": 900}}]),
        "unsupported",
        "outside the screen",
    ),
    (
        item({"select_dropdown": {"text": "Large"}}, elements=[ELEMENT]),
        "fill",
        "taken as the option's value",
    ),
    (item({"wait": {}}, {"go_back": {}}, results=[{}]), "wait", "not done any more: go_back"),
    (item(), None, "it has no action"),
    ({"state": None, "model_output": None, "result": None}, None, "it has no action"),
    (item({"wait": {}}, screenshot_path="/tmp/x/step_1.png"), "wait", "'step_1.png' is missing"),
    (item({"scroll": {"pages": 1e6}}), "unsupported", "cannot scroll"),
    (item({"scroll": {"pages": 1e308}}), "unsupported", "cannot scroll without end"),
    (item({"scroll": {"pages": 10**308}}), "unsupported", "cannot scroll without end"),
    (item({"send_keys": {"keys": "ctrl+bar"}}), "unsupported", "no key is called 'bar'"),
    (item({"wait": {"seconds": 1.5}}), "wait", r"a pause of 1\.5 s became one of whole seconds"),
    (
        item({"go_back": {}}, results=[{"error": "x" * 2001}]),
        "back",
        "its error has 2001 characters, 2000 are kept",
    ),
    (
        item({"go_back": {}}, results=[{"long_term_memory": "x" * 2001}]),
        "back",
        "its memory has 2001 characters, 2000 are kept",
    ),
    (
        item({"go_back": {}}) | {"state_message": f"<user_request>\n{'x' * 8001}\n</user_request>"},
        "back",
        "the task has 8001 characters, 8000 are kept",
    ),
    (item({"navigate": {"url": "x" * 3000}}), "unsupported", "3000 characters"),
    (item({}), "unsupported", "there is no action for ''"),
    (item({"wait": 5}), "wait", None),
]  # fmt: skip


@pytest.mark.parametrize(("one", "kind", "words"), LOST, ids=range(len(LOST)))
def test_what_is_lost_is_said(tmp_path, one, kind, words):
    import re

    taken = taken_of(tmp_path, one)
    performed = taken.steps[0].performed
    assert (performed and performed.kind) == kind
    if words:
        assert any(re.search(words, sentence) for sentence in taken.lost), taken.lost
    read_recording(write_taken(tmp_path, "bundle", taken))


def test_a_box_of_the_page_is_not_one_of_the_viewport(tmp_path):
    """browser-use's bounds are of the document; on a scrolled page the mouse was elsewhere."""
    below = {**ELEMENT, "bounds": {"x": 10, "y": 1000, "width": 30, "height": 10}}
    result = {"metadata": {"click_x": 25, "click_y": 300}}
    step = taken_of(tmp_path, item({"click": {}}, results=[result], elements=[below])).steps[0]
    assert step.performed == ClickElement()
    assert step.target is not None and step.target.box is None


def test_a_click_without_an_element_is_at_its_point(tmp_path):
    result = {"metadata": {"click_x": 25.5, "click_y": 300}}
    asked = {"click": {"coordinate_x": 30, "coordinate_y": 350}}
    step = taken_of(tmp_path, item(asked, results=[result])).steps[0]
    assert step.performed == Click(x=25, y=300)


def test_tabs_are_counted_as_they_were_opened(tmp_path):
    tabs = [{"url": "http://a.test/", "title": "", "target_id": name} for name in ("AAAA", "BBBB")]
    first = item({"open_tab": {"url": "http://a.test/"}}, tabs=tabs[:1])
    second = item({"switch": {"tab_id": "AAAA"}}, {"close": {"tab_id": "BBBB"}}, tabs=tabs[::-1])
    steps = taken_of(tmp_path, first, second, item({"switch_tab": {"page_id": 0}})).steps
    assert [step.performed for step in steps[1:]] == [
        SwitchTab(index=0),
        SwitchTab(index=1),
        CloseTab(),
        SwitchTab(index=0),
    ]


def test_an_error_is_the_outcome(tmp_path):
    result = {"error": "Element not found"}
    step = taken_of(tmp_path, item({"go_back": {}}, results=[result])).steps[0]
    assert (step.outcome.status, step.outcome.message) == ("failed", "Element not found")


def test_a_screenshot_within_the_file(tmp_path):
    png = make_png(3, (640, 400))
    text = base64.b64encode(png).decode()
    taken = taken_of(tmp_path, item({"wait": {}}, screenshot=text))
    sha = hashlib.sha256(png).hexdigest()
    assert taken.steps[0].screenshot == sha and taken.screenshots == {sha: png}
    assert taken.viewport == Size(width=640, height=400)
    assert "screenshot" not in taken.steps[0].origin["item"]["state"]
    again = taken_of(tmp_path, item({"wait": {}}, screenshot=f"data:image/png;base64,{text}"))
    assert again.steps[0].screenshot == sha


def test_an_old_elements_fields():
    old = {"tag_name": "button", "xpath": "html/body/button", "css_selector": "body > button"}
    target = element_of(old)
    assert target is not None and target.tag == "button"
    assert [chain[0].engine for chain in target.selectors] == ["css", "xpath"]


def test_attributes_are_quoted_for_css():
    target = element_of(ELEMENT)
    assert target is not None
    assert target.selectors[0][0].value == 'select[name="a\\22 b\\5c c"]'


@pytest.mark.parametrize(
    "told",
    [
        None,
        5,
        {},
        {"attributes": [], "bounds": []},
        {"bounds": {"x": True, "y": 0, "width": 1, "height": 1}},
        {"bounds": {"x": 0, "y": 0, "width": -1, "height": 1}},
        {"bounds": {"x": 10**400, "y": 0, "width": 1, "height": 1}},
        {"x_path": "x" * 3000, "attributes": {"id": "x" * 3000, "role": "x" * 3000}},
        {"attributes": {"id": 5, "data-testid": None}},
    ],
    ids=range(9),
)
def test_what_tells_nothing_of_an_element_is_none(told):
    assert element_of(told) is None


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{", "history.json: not JSON"),
        ("[]", "a JSON object is expected"),
        ("{}", "history must be a list"),
        ('{"history": []}', "history must be a list"),
        ('{"history": [5]}', "item 0: a JSON object"),
        (json.dumps({"history": [{}] * 5001}), "1 to 5000"),
        (json.dumps({"history": [item(*[{"wait": {}}] * 90)] * 60}), "over 5000 actions"),
        (json.dumps({"history": [item(screenshot="%%%")]}), "is not base64"),
        (json.dumps({"history": [item(screenshot="AAAA")]}), "not a PNG"),
        (json.dumps({"history": [item(screenshot_path="..")]}), "not the plain name"),
        (json.dumps({"history": [item(screenshot_path="a/")]}), "not the plain name"),
    ],
)
def test_a_hostile_file_is_refused(tmp_path, text, words):
    (tmp_path / "history.json").write_text(text)
    with pytest.raises(RecordingError, match=words):
        browser_use.take(tmp_path)


def test_of_a_path_only_the_name_is_used(tmp_path):
    """Whatever the folder: nothing but a file beside the history is read."""
    (tmp_path / "inside").mkdir()
    (tmp_path / "secret.png").write_bytes(make_png(9))
    paths = ["../secret.png", str(tmp_path / "secret.png"), "..\\secret.png"]
    for path in paths:
        taken = taken_of(tmp_path / "inside", item({"wait": {}}, screenshot_path=path))
        assert taken.steps[0].screenshot is None
        assert "history.json item 0: the picture 'secret.png' is missing" in taken.lost


def test_no_link_is_followed(tmp_path):
    (tmp_path / "step_1.png").symlink_to("/etc/passwd")
    with pytest.raises(RecordingError, match=r"step_1.png cannot be opened"):
        taken_of(tmp_path, item({"wait": {}}, screenshot_path="step_1.png"))


def test_unsupported_words_are_the_sources_own(tmp_path):
    step = taken_of(tmp_path, item({"upload_file": {"index": 1, "path": "a"}})).steps[0]
    assert step.performed == Unsupported(what='upload_file {"index": 1, "path": "a"}')
