"""What calls of a trace become, and what of them is told to be lost."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from replay.importers.traces import BEGIN, call, jpeg, write

from agentserve.core.actions import Click, Drag, Hover, Navigate, Type, Wait
from agentserve.core.actions.recorded import ClickElement, Unsupported, WaitFor
from agentserve.core.errors import RecordingError
from agentserve.replay.importers import trace_events
from agentserve.replay.importers.playwright_trace import take


@pytest.mark.parametrize(
    ("events", "performed"),
    [
        (call("setInputFiles", selector="#f"), [Unsupported(what="choosing files")]),
        (call("click", selector="#a", button="left", clickCount=9),
         [Unsupported(what="9 clicks of the button 'left'")]),
        (call("mouseUp", cls="Page"),
         [Unsupported(what="a button of the mouse that comes up")]),
        (call("mouseDown", cls="Page"),
         [Unsupported(what="a button of the mouse that is held meanwhile")]),
        (call("mouseMove", cls="Page", x=3, y=4), [Hover(x=3, y=4)]),
        (call("mouseClick", cls="Page", x=1e9, y=4), [Unsupported(
            what="a click at (1e+09, 4), outside of the viewport of 160x120")]),
        (call("mouseClick", cls="Page", x=-3.2, y=4), [Unsupported(
            what="a click at (-3.2, 4), outside of the viewport of 160x120")]),
        (call("mouseClick", cls="Page", x=9, y=4, clickCount=3), [Unsupported(
            what="3 clicks of the left button at a point")]),
        (call("touchscreenTap", cls="Page", x=160.5, y=400), [Unsupported(
            what="a tap at (160.5, 400), outside of the viewport of 160x120")]),
        (call("mouseMove", cls="Page", x=3, y=4) + call("mouseWheel", 2, cls="Page", deltaY=1e6),
         [Hover(x=3, y=4), Unsupported(
             what="a turn of the wheel by (0, 1e+06) px")]),
        (call("waitForTimeout", waitTimeout=120_000), [Wait(seconds=30)] * 4),
        (call("waitForTimeout", waitTimeout=31_500), [Wait(seconds=30), Wait(seconds=2)]),
        (call("keyboardType", cls="Page", text="x" * 4100),
         [Type(text="x" * 2000), Type(text="x" * 2000), Type(text="x" * 100)]),
        (call("expect", selector="#a", expression="to.have.text", isNot=False,
              expectedText=[{"string": "Done"}], timeout=1000),
         [WaitFor(text="Done", timeout_s=1)]),
        (call("expect", selector="#a", expression="to.be.visible", isNot=True),
         [WaitFor(visible=False, timeout_s=5)]),
        (call("__waitInfo__", cls="Page") + call("reload", 2, cls="Page"), None),
    ],
    ids=lambda value: value[0]["method"] if isinstance(value, list) and isinstance(value[0], dict)
    else None,
)  # fmt: skip
def test_calls_of_other_kinds(tmp_path: Path, events: list[Any], performed: Any) -> None:
    taken = take(write(tmp_path / "t.zip", *events))
    if performed is not None:
        assert [step.performed for step in taken.steps] == performed
        if any(isinstance(action, Unsupported) for action in performed):
            assert "has no equal; a replay stops there" in "\n".join(taken.lost)
    else:
        assert len(taken.steps) == 1 and taken.lost == ()


def options(**options: Any) -> dict[str, Any]:
    return {**BEGIN, "options": {**BEGIN["options"], **options}}


def test_what_the_browser_emulated_is_told(tmp_path: Path) -> None:
    begin = options(
        deviceScaleFactor=2,
        isMobile=True,
        userAgent="Me",
        locale="de-DE",
        colorScheme="dark",
        reducedMotion="no-preference",
        offline=False,
        javaScriptEnabled=False,
        bypassCSP=True,
    )
    taken = take(write(tmp_path / "t.zip", *call("reload", cls="Page"), begin=begin))
    assert taken.scale == 2
    assert taken.lost == (
        "the browser's options isMobile, userAgent, locale, colorScheme, javaScriptEnabled: a "
        "replay has its own",
    )
    wrong = write(
        tmp_path / "w.zip", *call("reload", cls="Page"), begin=options(deviceScaleFactor=9)
    )
    with pytest.raises(RecordingError, match="deviceScaleFactor must be a number above 0"):
        take(wrong)


def test_a_scale_other_than_that_of_the_screens_is_told(tmp_path: Path) -> None:
    shot = {"type": "screenshot", "callId": "call@1", "phase": "before", "file": "shot"}
    path = write(
        tmp_path / "t.zip",
        *call("reload", cls="Page"),
        shot,
        begin=options(deviceScaleFactor=2),
        shot=jpeg((160, 120)),
    )
    taken = take(path)
    assert taken.scale == 1
    told = "the device scale factor 2: the screens have 1, and so has a replay"
    assert told in taken.lost


def test_addresses_and_errors_that_are_cut_are_told(tmp_path: Path) -> None:
    snapshot = {"callId": "call@1", "frameUrl": "http://a/" + "x" * 2000, "isMainFrame": True}
    before, after = call("reload", cls="Page")
    failed = {**after, "error": {"message": "y" * 3000}}
    event = {"type": "frame-snapshot", "snapshot": snapshot}
    taken = take(write(tmp_path / "t.zip", before, event, failed))
    assert len(taken.steps[0].url) == len(taken.steps[0].outcome.message) == 2000
    assert {"step 0: the page's address has 2009 characters, 2000 are kept",
            "step 0: its error has 3013 characters, 2000 are kept"} <= {*taken.lost}  # fmt: skip


def test_calls_that_would_fill_the_memory_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trace_events, "MAX_CALLS_WEIGHT", 1000)
    several = [one for number in range(20) for one in call("click", number, selector="[[[,,,")]
    assert len(take(write(tmp_path / "t.zip", *several)).steps) == 20
    wide = call("evaluateExpression", 1, arg=[[]] * 150)
    with pytest.raises(RecordingError, match=r"trace\.trace line 4: too many values in it"):
        take(write(tmp_path / "t.zip", *wide, *wide))


def test_points_are_pixels_of_the_viewport(tmp_path: Path) -> None:
    """A browser's points have fractions, and at an edge they may lie on its end."""
    taken = take(
        write(
            tmp_path / "t.zip",
            *call("mouseClick", 1, cls="Page", x=159.7, y=119.7),
            *call("mouseClick", 2, cls="Page", x=160, y=-0.2),
            *call("mouseMove", 3, cls="Page", x=7.9, y=8.9),
            *call("mouseDown", 4, cls="Page"),
            *call("mouseMove", 5, cls="Page", x=159.9, y=120),
            *call("mouseUp", 6, cls="Page"),
            *call("touchscreenTap", 7, cls="Page", x=1.5, y=2.5),
            *call("hover", 8, selector="#a"),
            {"type": "input", "callId": "call@8", "point": {"x": 159.6, "y": 1.6}},
        )
    )
    assert [step.performed for step in taken.steps] == [
        Click(x=159, y=119),
        Click(x=159, y=0),
        Drag(x=7, y=8, to_x=159, to_y=119),
        Click(x=1, y=2),
        Hover(x=159, y=1),
    ]
    assert taken.lost == ("step 3: a tap became a click",)


def test_a_mouse_that_is_moved_off_the_page_hovers_over_nothing(tmp_path: Path) -> None:
    taken = take(
        write(
            tmp_path / "t.zip",
            *call("mouseMove", 1, cls="Page", x=-1, y=-1),
            *call("goto", 2, url="http://a/"),
            *call("mouseMove", 3, cls="Page", x=-1, y=-1),
            *call("mouseWheel", 4, cls="Page", deltaY=100),
            *call("mouseMove", 5, cls="Page", x=200, y=1),
        )
    )
    wheel = "a turn of the wheel at (-1, -1), outside of the viewport of 160x120"
    assert [step.performed for step in taken.steps] == [
        Navigate(url="http://a/"),
        Unsupported(what=wheel),
    ]
    gone = "a move of the mouse to ({}), outside of the viewport of 160x120, is left out"
    assert taken.lost == (
        gone.format("-1, -1"),
        f"step 1: {wheel} has no equal; a replay stops there unless told to go by",
        gone.format("200, 1"),
    )


def test_an_element_whose_point_is_off_the_screen_is_used_without_it(tmp_path: Path) -> None:
    taken = take(
        write(
            tmp_path / "t.zip",
            *call("click", 1, selector="#a"),
            {"type": "input", "callId": "call@1", "point": {"x": -3.2, "y": 5}},
        )
    )
    assert [step.performed for step in taken.steps] == [ClickElement()]
    assert taken.lost == (
        "step 0: the point (-3.2, 5) is outside of the viewport of 160x120: its element is used "
        "without it",
    )


def test_pauses_and_waits_of_another_length_are_told(tmp_path: Path) -> None:
    taken = take(
        write(
            tmp_path / "t.zip",
            *call("waitForTimeout", 1, waitTimeout=100),
            *call("waitForSelector", 2, selector="#a", timeout=0),
            *call("waitForSelector", 3, selector="#a", timeout=900_000),
        )
    )
    assert [step.performed for step in taken.steps] == [
        Wait(seconds=1),
        WaitFor(timeout_s=600),
        WaitFor(timeout_s=600),
    ]
    assert taken.lost == (
        "step 0: a pause of 0.1 s became one of 1 s",
        "step 1: a wait without end ends after 600 s",
        "step 2: a wait of 900 s ends after 600 s",
    )


def test_what_was_only_tried_is_no_act_and_is_told(tmp_path: Path) -> None:
    tried = call("click", 1, selector="#a", trial=True)
    taken = take(write(tmp_path / "t.zip", *tried, *call("hover", 2, selector="#a", trial=False)))
    (step,) = taken.steps
    assert step.performed is not None and step.performed.kind == "hover_element"
    assert "calls without an equal: Frame.click (1)" in taken.lost


def test_where_in_an_element_is_kept_also_without_an_input_event(tmp_path: Path) -> None:
    acts = call("click", 1, selector="#a", position={"x": 3, "y": 4.5})
    (step,) = take(write(tmp_path / "t.zip", *acts)).steps
    assert step.target is not None and step.target.offset == (3, 4.5)
    acts = call("click", 1, selector="#a", position={"x": "3"})
    with pytest.raises(RecordingError, match="position: x must be a number"):
        take(write(tmp_path / "u.zip", *acts))
