"""Traces of the installed Playwright, and what others might give for such."""

from __future__ import annotations

import io
import json
import struct
import zipfile
from pathlib import Path
from typing import Any

import pytest
from PIL import Image
from replay.importers.conftest import Made
from replay.importers.traces import BEGIN, call, jpeg, write

from agentserve.browser.launch import launch_browser
from agentserve.cli.import_report import ImportReport
from agentserve.core.actions import (
    Back,
    Click,
    DoubleClick,
    Drag,
    Hover,
    Key,
    Navigate,
    Scroll,
    Type,
)
from agentserve.core.actions.recorded import (
    ClickElement,
    CloseTab,
    Fill,
    Forward,
    KeyDown,
    KeyUp,
    OpenTab,
    Resize,
    SwitchTab,
    WaitFor,
)
from agentserve.core.elements import Selector
from agentserve.core.errors import RecordingError
from agentserve.core.screens import Size
from agentserve.replay import read_recording
from agentserve.replay.bundle.png import png_size
from agentserve.replay.importers import archive, trace_events
from agentserve.replay.importers.detect import take as take_any
from agentserve.replay.importers.playwright_trace import take
from agentserve.replay.importers.taken import Taken, write_taken
from agentserve.replay.importers.trace_events import MAX_LINE_BYTES

FIELDS = """<input id=p type=password><input id=q><input id=r type=password><my-x></my-x>
<iframe srcdoc="<input id=f type=password>"></iframe><script>
document.querySelector("my-x").attachShadow({mode: "open"}).innerHTML = "<input id=s type=password>"
</script>"""


@pytest.fixture(scope="module")
def taken(made: Made) -> Taken:
    return take_any(made.trace)


def test_every_call_that_acts_becomes_its_action(made: Made, taken: Taken) -> None:
    performed = [step.performed for step in taken.steps]
    at = taken.steps[2].performed
    link = next(action for action in performed if isinstance(action, Hover))
    assert isinstance(at, Click)
    assert performed == [
        Navigate(url=f"{made.base}/register.html"),
        Fill(value="Grace"),
        at,
        Type(text="Hopper"),
        Key(keys="Tab"),
        Type(text="g@b"),
        Key(keys="Control+a"),
        KeyDown(key="?"),
        KeyUp(key="?"),
        Drag(x=10, y=10, to_x=50, to_y=60),
        DoubleClick(x=21, y=22),
        Scroll(x=21, y=22, dy=100),
        link,
        Click(x=link.x, y=link.y),
        Back(),
        Forward(),
        Navigate(url=f"{made.base}/tables.html"),
        Fill(value="25"),
        Fill(value="Edin"),
        Resize(size=Size(width=1000, height=600)),
        Navigate(url=f"{made.base}/login.html"),
        Fill(value="true"),
        ClickElement(clicks=2, modifiers=("Shift",)),
        performed[23],
        Type(text="x"),
        OpenTab(),
        Navigate(url=f"{made.base}/forgot-password.html"),
        CloseTab(),
        SwitchTab(index=0),
        WaitFor(timeout_s=5),
        None,
    ]
    assert isinstance(performed[23], Drag)


def test_points_boxes_and_selectors_are_those_of_the_page(taken: Taken) -> None:
    click = taken.steps[2]
    assert click.target is not None and click.target.box is not None
    assert click.target.selectors == ((Selector(engine="css", value="#exampleLastName"),),)
    assert click.target.offset == pytest.approx(
        (6, 7), abs=0.1
    )  # Playwright counts from the border
    assert click.target.box.holds(click.performed.x, click.performed.y)
    drag = taken.steps[23]
    assert drag.target is not None and drag.to_target is not None
    assert drag.to_target.selectors == ((Selector(engine="css", value="#exampleInputPassword"),),)
    typed = taken.steps[24]
    assert typed.target is not None  # what was given the focus before
    assert typed.target.selectors == ((Selector(engine="css", value="#exampleInputEmail"),),)


def test_steps_have_the_screen_and_the_address_before_them(made: Made, taken: Taken) -> None:
    assert taken.viewport == Size(width=1120, height=672)
    assert taken.url == f"{made.base}/register.html"
    for step in taken.steps[2:14]:
        assert step.url == f"{made.base}/register.html"
        # two keys of one call have one screen
        assert step.index < 4 or step.screenshot or step.performed == KeyUp(key="?"), step
    first = taken.steps[10].screenshot
    assert first is not None
    size = png_size(taken.screenshots[first])
    assert size.width / 1120 == pytest.approx(taken.scale, abs=0.001)
    assert size.height / 672 == pytest.approx(taken.scale, abs=0.01)


def test_a_call_that_failed_is_the_end(taken: Taken) -> None:
    last = taken.steps[-1]
    assert last.outcome.status == "failed" and "Timeout 200ms exceeded" in last.outcome.message
    assert taken.end is not None and taken.end.end == "error"


def test_what_is_lost_is_told(taken: Taken) -> None:
    told = "\n".join(taken.lost)
    for words in (
        "a call that failed is not done again",
        "Frame.evaluateExpression (1)",
        "errors of the pages",
        "what the pages fetched",
        "frames of a screencast",
    ):
        assert words in told


def test_it_is_written_as_a_bundle_and_read_again(tmp_path: Path, taken: Taken) -> None:
    folder = write_taken(tmp_path, "made", taken)
    recording = read_recording(folder)
    assert recording.steps == taken.steps
    assert recording.meta.imported is not None
    assert recording.meta.imported.version.startswith("10, Playwright 1.")
    for step in recording.steps:
        if step.screenshot:
            recording.screenshot(step.screenshot)


async def test_it_tells_which_fields_are_passwords_whatever_they_are_called(
    tmp_path: Path,
) -> None:
    """Also in a shadow root and a frame, and where the keys were of no element."""
    async with launch_browser() as browser:
        context = await browser.new_context()
        await context.route(
            "**/*", lambda route: route.fulfill(body=FIELDS, content_type="text/html")
        )
        await context.tracing.start(snapshots=True)
        page = await context.new_page()
        await page.goto("http://fields.test/")
        await page.locator("#q").fill("ada")
        for field in ("#p", "#s"):
            await page.locator(field).fill("hunter2")
        await page.frame_locator("iframe").locator("#f").press_sequentially("hunter2")
        await page.locator("#r").click()
        await page.keyboard.type("hunter2")
        await page.locator("#q").click()
        await page.keyboard.insert_text("hunter2")
        await context.tracing.stop(path=tmp_path / "t.zip")
    taken = take(tmp_path / "t.zip")
    typed = [step.index for step in taken.steps if isinstance(step.performed, Fill | Type)]
    assert len(typed) == 6 and taken.passwords == (*typed[1:5],)


# ---- traces that nobody's Playwright wrote


def test_without_snapshots_the_log_tells_a_passwords_field(tmp_path: Path) -> None:
    log = {"type": "log", "callId": "call@1", "time": 11.0}
    said = '  locator resolved to <input id="a" type="password" value=""/>'
    path = write(
        tmp_path / "t.zip",
        *call("fill", 1, selector="#a", value="hunter2"),
        {**log, "message": said},
        *call("fill", 2, selector="#b", value="hunter2"),
    )
    assert take(path).passwords == (0,)


def test_more_tabs_than_a_recording_can_name_are_refused(tmp_path: Path) -> None:
    opened = {"type": "event", "class": "BrowserContext", "method": "page", "time": 1}
    pages = [{**opened, "params": {"pageId": f"page@{number}"}} for number in range(1001)]
    act = call("click", 1, selector="#a")
    assert take(write(tmp_path / "t.zip", *pages[:1000], *act)).steps
    with pytest.raises(RecordingError, match="line 1002: more than 1000 tabs"):
        take(write(tmp_path / "u.zip", *pages, *act))


@pytest.mark.parametrize("kind", ["before", "screencast-frame", "screenshot", "event"])
def test_what_a_small_file_makes_a_reader_hold_is_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    monkeypatch.setattr(trace_events, "MAX_HELD_BYTES", 10_000)
    with pytest.raises(RecordingError, match="have over 10000 bytes"):
        take(write(tmp_path / "t.zip", {"type": kind, "file": "x" * 10_000}))


def test_an_address_that_nothing_tells_any_more_is_left_out(tmp_path: Path) -> None:
    """Without snapshots a click may have led anywhere; what was gone to is known."""
    begin = {**BEGIN, "options": {**BEGIN["options"], "baseURL": "http://a.test/shop/"}}
    path = write(
        tmp_path / "t.zip",
        *call("goto", 1, url="http://a.test"),
        *call("fill", 2, selector="#a", value="x"),
        *call("click", 3, selector="#a"),
        *call("hover", 4, selector="#a"),
        *call("goto", 5, url="list?a=b"),
        *call("click", 6, selector="#a"),
        begin=begin,
    )
    taken = take(path)
    assert [step.url for step in taken.steps] == [
        "", "http://a.test/", "http://a.test/", "", "", "http://a.test/shop/list?a=b",
    ]  # fmt: skip
    assert taken.steps[4].performed == Navigate(url="http://a.test/shop/list?a=b")
    assert taken.url == "http://a.test" and not any("baseURL" in told for told in taken.lost)


def test_without_snapshots_a_step_has_the_last_frame_before_its_call(tmp_path: Path) -> None:
    frame = {"type": "screencast-frame", "pageId": "page@1", "width": 160, "height": 120}
    page = {"type": "event", "class": "BrowserContext", "method": "page", "time": 1}
    path = write(
        tmp_path / "t.zip",
        {**page, "params": {"pageId": "page@1"}},
        *call("goto", 1, url="http://a/"),
        {**frame, "file": "before", "timestamp": 15.0},
        *call("click", 2, selector="#a"),
        {**frame, "file": "after", "timestamp": 20.5},
        before=jpeg((80, 60)),
        after=jpeg((40, 30)),
    )
    taken = take(path)
    first, second = taken.steps
    assert (first.screenshot, first.performed) == (None, Navigate(url="http://a/"))
    assert second.screenshot is not None
    assert png_size(taken.screenshots[second.screenshot]) == Size(width=80, height=60)
    assert taken.scale == 0.5
    (told,) = ImportReport(tmp_path / "r", taken, ()).warnings()
    assert "frames of a screencast" in told and "--update" in told
    assert (second.url, second.performed) == ("http://a/", ClickElement())


def test_its_own_screenshots_go_before_the_screencast(tmp_path: Path) -> None:
    buffer = io.BytesIO()
    Image.new("RGB", (160, 120)).save(buffer, "PNG")
    shot = {"type": "screenshot", "callId": "call@1", "phase": "before", "file": "shot"}
    path = write(tmp_path / "t.zip", *call("click", 1, selector="#a"), shot, shot=buffer.getvalue())
    taken = take(path)
    (step,) = taken.steps
    assert step.screenshot is not None and taken.screenshots[step.screenshot] == buffer.getvalue()
    assert taken.scale == 1 and ImportReport(tmp_path / "r", taken, ()).warnings() == []


@pytest.mark.parametrize(
    ("events", "words"),
    [
        (["x"], "line 2: a JSON object is expected"),
        ([{"type": 7}], "line 2: type must be a text"),
        ([{"type": "before"}], "line 2: callId is missing"),
        (call("goto"), "line 2: url is missing"),
        (call("goto", url="x" * 3000), "line 2: url"),
        (call("press", selector="#a", key="x" * 99), "line 2: key must be the name of a key"),
        (call("press", selector="#a", key=""), "line 2: key must be the name of a key"),
        (call("setViewportSize", cls="Page", viewportSize={"width": 0, "height": 1}), "line 2"),
        ([{"type": "event", "method": "page", "params": {"pageId": 1}}], "params: pageId must"),
        ([json.loads("[" * 60 + "]" * 60)], "line 2"),
    ],
    ids=str,
)  # fmt: skip
def test_wrong_events_are_refused_with_their_line(
    tmp_path: Path, events: list[Any], words: str
) -> None:
    with pytest.raises(RecordingError) as failure:
        take(write(tmp_path / "t.zip", *events))
    assert words in failure.value.message


@pytest.mark.parametrize(("version", "age"), [(9, "older"), (11, "newer")])
def test_other_versions_are_refused_with_what_to_do(tmp_path: Path, version: int, age: str) -> None:
    path = tmp_path / "t.zip"
    with zipfile.ZipFile(path, "w") as zipped:
        zipped.writestr("trace.trace", json.dumps({**BEGIN, "version": version}))
    with pytest.raises(RecordingError) as failure:
        take(path)
    assert f"version {version}; 10 is read" in failure.value.message
    assert age in failure.value.hint


def test_a_bomb_is_measured_as_it_inflates(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of whatever size it claims to be."""
    path = write(tmp_path / "t.zip", *call("click", selector="#a"))
    monkeypatch.setattr(archive, "MAX_INFLATED_BYTES", 100)
    with pytest.raises(RecordingError, match="'trace.trace' and those before it"):
        take(path)


def test_a_real_bomb_of_a_line_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "t.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as zipped:
        zipped.writestr("trace.trace", b" " * (3 * MAX_LINE_BYTES) + b"\n" + b"{}")
    assert path.stat().st_size < 60_000
    with pytest.raises(RecordingError, match=r"trace\.trace line"):
        take(path)


@pytest.mark.parametrize("depth", [60, 5000])
def test_the_dom_of_a_page_may_be_as_deep_as_it_is(tmp_path: Path, depth: int) -> None:
    path = tmp_path / "t.zip"
    html = '["DIV",{},' * depth + '"x"' + "]" * depth
    snapshot = (
        '{"type":"frame-snapshot","snapshot":{"callId":"call@1","phase":"before","pageId":"page@1",'
        f'"frameUrl":"http://a/deep","isMainFrame":true,"html":{html}}}}}'
    )
    lines = [json.dumps(BEGIN), json.dumps(call("click", selector="#a")[0]), snapshot,
             json.dumps(call("click", selector="#a")[1])]  # fmt: skip
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as zipped:
        zipped.writestr("trace.trace", "\n".join(lines))
    (step,) = take(path).steps
    assert step.performed == ClickElement()
    assert step.url == ("http://a/deep" if depth == 60 else "")


def test_a_picture_that_claims_to_be_huge_is_not_decoded(tmp_path: Path) -> None:
    shot = {"type": "screenshot", "callId": "call@1", "phase": "before", "file": "shot"}
    head = b"\x89PNG\r\n\x1a\n" + struct.pack(">I4sII", 13, b"IHDR", 60_000, 60_000)
    path = write(tmp_path / "t.zip", *call("click", selector="#a"), shot, shot=head + b"\0" * 50)
    with pytest.raises(RecordingError, match=r"t\.zip: shot"):
        take(path)


def test_a_picture_that_is_not_there_is_told(tmp_path: Path) -> None:
    shot = {"type": "screenshot", "callId": "call@1", "phase": "before", "file": "../../etc/passwd"}
    taken = take(write(tmp_path / "t.zip", *call("click", selector="#a"), shot))
    assert "step 0: the trace names a picture that is not in it" in taken.lost


def test_damaged_zips_are_refused(tmp_path: Path) -> None:
    good = write(tmp_path / "t.zip", *call("click", selector="#a"))
    content = good.read_bytes()
    start = 30 + len("trace.trace")
    kinds = {
        "empty": b"",
        "text": b"not a zip at all, but longer than the end of one",
        "cut": content[:-30],
        "comment": content[:-2] + b"\x05\x00hello",
        "zip64": content[:-22] + b"PK\x06\x07" + b"\0" * 16 + content[-22:],
        "many": content[:-14] + b"\xff\xff\xff\xff" + content[-10:],
        "inside": content[:start] + b"\xff" * 20 + content[start + 20 :],
    }
    for name, data in kinds.items():
        path = tmp_path / f"{name}.zip"
        path.write_bytes(data)
        with pytest.raises(RecordingError) as failure:
            take(path)
        assert f"{name}.zip" in failure.value.message, name


def test_zips_of_something_else_are_refused(tmp_path: Path) -> None:
    with pytest.raises(RecordingError, match=r"0 \.trace files"):
        take(write(tmp_path / "t.zip", name="deeper/trace.trace"))
    twice = tmp_path / "twice.zip"
    with pytest.warns(UserWarning), zipfile.ZipFile(twice, "w") as zipped:
        zipped.writestr("trace.trace", "")
        zipped.writestr("trace.trace", "")
    with pytest.raises(RecordingError, match="'trace.trace' is there twice"):
        take(twice)


def test_the_calls_of_a_test_runner_are_passed_by(tmp_path: Path) -> None:
    path = write(tmp_path / "t.zip", *call("click", selector="#a"), name="0-trace.trace")
    with zipfile.ZipFile(path, "a") as zipped:
        steps = [{**BEGIN, "origin": "testRunner"}, *call("step"), *call("step", 2)]
        zipped.writestr("test.trace", "\n".join(map(json.dumps, steps)))
    assert [step.performed for step in take(path).steps] == [ClickElement()]


def test_the_scale_is_that_of_most_screens(tmp_path: Path) -> None:
    """A screencast begins with frames of the window as it was opened."""
    frame = {"type": "screencast-frame", "pageId": "page@1", "width": 160, "height": 120}
    page = {"type": "event", "class": "BrowserContext", "method": "page", "time": 1}
    path = write(
        tmp_path / "t.zip",
        {**page, "params": {"pageId": "page@1"}},
        {**frame, "file": "early", "timestamp": 5.0},
        *call("click", 1, selector="#a"),
        {**frame, "file": "later", "timestamp": 15.0},
        *call("click", 2, selector="#a"),
        *call("click", 3, selector="#a"),
        early=jpeg((70, 60)),
        later=jpeg((80, 60)),
    )
    taken = take(path)
    assert taken.scale == 0.5
    assert "that screens have several scales: 0.4375, 0.5" in taken.lost
