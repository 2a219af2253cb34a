"""Recorded actions on the page as it is now."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from agentserve.browser import recorded
from agentserve.browser.computer import PlaywrightComputer
from agentserve.browser.recorded import aim
from agentserve.core.actions import Click, Drag, Key, Type
from agentserve.core.actions.recorded import (
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

OK = Outcome(status="ok")
VIEW = Size(width=300, height=280)


@pytest.fixture
async def computer(open_page: Any) -> AsyncIterator[PlaywrightComputer]:
    async with open_page("elements.html") as opened:
        await opened.load()
        yield opened


def by_css(css: str, **fields: Any) -> ElementTarget:
    return ElementTarget(selectors=((Selector(engine="css", value=css),),), **fields)


def box(x: float, y: float, width: float, height: float) -> PageBox:
    return PageBox(x=x, y=y, width=width, height=height)


@pytest.mark.parametrize(
    ("target", "now", "point"),
    [
        (ElementTarget(box=box(0, 0, 50, 20), offset=(5, 10)), box(40, 0, 50, 20), (45, 10)),
        (ElementTarget(box=box(0, 0, 50, 20), offset=(5, 10)), box(40, 0, 100, 10), (50, 5)),
        (ElementTarget(box=box(0, 0, 50, 20)), box(40, 10, 50, 20), (65, 20)),
        (ElementTarget(offset=(5, 10)), box(40, 0, 50, 20), (45, 10)),
        (ElementTarget(offset=(80, 10)), box(40, 0, 50, 20), (65, 10)),
        (ElementTarget(box=box(0, 0, 50, 20), offset=(5, 10)), box(290, 275, 50, 20), (295, 279)),
    ],
)
def test_an_action_is_aimed_where_the_element_is_now(
    target: ElementTarget, now: PageBox, point: tuple[int, int]
) -> None:
    assert aim(target, now, VIEW) == point


async def test_a_click_follows_its_button(computer: PlaywrightComputer) -> None:
    target = await computer.element_at(20, 15)
    await computer.page.evaluate("() => { save.style.left = '150px'; save.style.top = '50px'; }")
    done = await computer.perform_recorded(Click(x=20, y=15), target)
    assert (done.action, done.outcome) == (Click(x=160, y=55), OK)
    assert done.found_by is not None
    assert await computer.page.evaluate("() => clicks") == [["save", 160, 55]]


async def test_without_its_element_a_click_goes_to_the_recorded_point(
    computer: PlaywrightComputer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recorded, "APPEAR_TIMEOUT_S", 0.2)
    done = await computer.perform_recorded(
        Click(x=20, y=15), by_css("#gone", box=box(10, 10, 20, 20), offset=(10, 5))
    )
    assert (done.action, done.outcome, done.found_by) == (Click(x=20, y=15), OK, None)
    assert await computer.page.evaluate("() => clicks") == [["save", 20, 15]]
    # some tools record no point: then there is nothing to click at
    done = await computer.perform_recorded(Click(x=0, y=0), by_css("#gone", offset=(3, 3)))
    assert done.outcome == Outcome(
        status="failed", message="The click was not done: its element is not there."
    )
    assert len(await computer.page.evaluate("() => clicks")) == 1


async def test_an_element_that_comes_late_or_is_far_is_waited_for_and_brought_into_view(
    computer: PlaywrightComputer,
) -> None:
    await computer.page.evaluate("() => { setTimeout(() => { far.id = 'late'; }, 400); }")
    done = await computer.perform_recorded(Click(x=1, y=1), by_css("#late"))
    assert done.outcome == OK
    (clicked,) = await computer.page.evaluate("() => clicks")
    assert clicked[0] == "late" and 0 < clicked[2] < VIEW.height
    assert await computer.page.evaluate("() => scrollY") > 600


async def test_both_ends_of_a_drag_follow_their_elements(computer: PlaywrightComputer) -> None:
    await computer.page.evaluate("""() => {
      window.presses = [];
      for (const type of ['mousedown', 'mouseup'])
        addEventListener(type, event => presses.push([type, event.clientX, event.clientY]));
      draggable.style.top = '170px'; agree.style.left = '200px';
    }""")
    done = await computer.perform_recorded(
        Drag(x=170, y=80, to_x=165, to_y=45),
        by_css("#draggable", box=box(160, 70, 120, 24), offset=(10, 10)),
        by_css("#agree"),
    )
    assert done.action.x == 170 and done.action.y == 180
    assert await computer.page.evaluate("() => presses") == [
        ["mousedown", 170, 180],
        ["mouseup", done.action.to_x, done.action.to_y],
    ]
    assert abs(done.action.to_x - 210) <= 2


async def test_fields_selects_and_boxes_are_filled_in(
    computer: PlaywrightComputer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recorded, "APPEAR_TIMEOUT_S", 0.2)
    page = computer.page
    for css, value in (("[name=city]", "Oslo"), ("#colour", "g"), ("#agree", "true")):
        assert (await computer.perform_recorded(Fill(value=value), by_css(css))).outcome == OK
    assert await page.input_value("[name=city]") == "Oslo"
    assert await page.input_value("#colour") == "g"
    assert await page.is_checked("#agree")
    await computer.perform_recorded(Fill(value="false"), by_css("#agree"))
    assert not await page.is_checked("#agree")
    for css, reason in (
        ("#save", "Nothing was filled in: the element takes no value."),
        ("#gone", "The fill was not done: its element is not there."),
    ):
        outcome = (await computer.perform_recorded(Fill(value="x"), by_css(css))).outcome
        assert outcome == Outcome(status="failed", message=reason)
    unknown = (await computer.perform_recorded(Fill(value="no such"), by_css("#colour"))).outcome
    assert unknown.status == "failed" and unknown.message.startswith("The fill failed:")


async def test_held_keys_the_viewport_and_history(computer: PlaywrightComputer, base: str) -> None:
    page = computer.page
    await computer.perform_recorded(Click(x=80, y=142))
    await computer.perform_recorded(KeyDown(key="Shift"))
    await computer.perform_recorded(KeyDown(key="A"))
    await computer.perform_recorded(KeyUp(key="A"))
    await computer.perform_recorded(KeyUp(key="Shift"))
    await computer.perform_recorded(Type(text="b"))
    assert await page.input_value("[name=city]") == "Ab"
    await computer.perform_recorded(Reload())
    assert await page.input_value("[name=city]") == ""
    assert (await computer.perform_recorded(Forward())).outcome.message == (
        "There is no page to go forward to."
    )
    await page.goto(f"{base}/target.html")
    await page.go_back()
    assert (await computer.perform_recorded(Forward())).outcome == OK
    assert computer.url == f"{base}/target.html"
    assert (await computer.perform_recorded(Resize(size=Size(width=200, height=100)))).outcome == OK
    assert await page.evaluate("() => [innerWidth, innerHeight]") == [200, 100]
    wrong = (await computer.perform_recorded(KeyDown(key="NoSuchKey"))).outcome
    assert wrong.status == "failed"


async def test_tabs_open_within_the_policy_and_close(
    computer: PlaywrightComputer, base: str
) -> None:
    assert (await computer.perform_recorded(CloseTab())).outcome.status == "failed"
    await computer.perform_recorded(OpenTab(url=f"{base}/target.html"))
    assert (computer.tabs, computer.url) == (2, f"{base}/target.html")
    await computer.perform_recorded(CloseTab())
    assert (computer.tabs, computer.url) == (1, f"{base}/elements.html")
    outside = (await computer.perform_recorded(OpenTab(url="http://other.invalid/"))).outcome
    assert outside.status == "failed" and "was refused" in outside.message
    assert computer.tabs == 1


async def test_waiting_for_an_element_or_a_condition(computer: PlaywrightComputer) -> None:
    await computer.page.evaluate("""() => {
      setTimeout(() => { save.remove(); window.ready = true; }, 300);
    }""")
    gone = WaitFor(visible=False, timeout_s=5)
    assert (await computer.perform_recorded(gone, by_css("#save"))).outcome == OK
    assert (await computer.perform_recorded(WaitFor(expression="window.ready"))).outcome == OK
    vain = await computer.perform_recorded(WaitFor(timeout_s=0.2), by_css("#save"))
    assert vain.outcome.message == "The element was waited for 0.2 s in vain."
    assert (await computer.perform_recorded(WaitFor())).outcome.status == "failed"
    broken = await computer.perform_recorded(WaitFor(expression="nothing.here"))
    assert broken.outcome.status == "failed"


async def test_what_has_no_equal_fails_in_words(computer: PlaywrightComputer) -> None:
    done = await computer.perform_recorded(Unsupported(what="shook the phone"))
    assert done.outcome == Outcome(
        status="failed", message='Not done, it has no equal here: "shook the phone".'
    )


async def test_an_aria_snapshot_tells_what_is_there(computer: PlaywrightComputer) -> None:
    snapshot = await computer.aria()
    assert '- button "Drop"' in snapshot and '- button "Pay"' in snapshot


async def test_acts_on_elements_go_to_where_the_element_is(computer: PlaywrightComputer) -> None:
    page = computer.page
    await page.evaluate("""() => {
      window.heard = [];
      for (const type of ['click', 'dblclick', 'contextmenu', 'mousemove'])
        addEventListener(type, event => heard.push([type, event.target.closest('button')?.id,
          event.clientX, event.clientY, event.shiftKey]), true);
      save.style.left = '20px';
    }""")
    target = by_css("#save", offset=(5, 6))
    assert (await computer.perform_recorded(HoverElement(), target)).outcome == OK
    assert (await page.evaluate("() => heard"))[-1] == ["mousemove", "save", 25, 16, False]
    shift = ClickElement(clicks=2, modifiers=("Shift",))
    done = await computer.perform_recorded(shift, target)
    assert (done.action, done.outcome) == (shift, OK) and done.found_by is not None
    heard = await page.evaluate("() => heard")
    kinds = [entry[0] for entry in heard if entry[0] != "mousemove"]
    assert kinds == ["click", "click", "dblclick"]
    assert heard[-1] == ["dblclick", "save", 25, 16, True]
    await computer.perform_recorded(ClickElement(button="right"), by_css("#save"))
    heard = await page.evaluate("() => heard")
    assert heard[-1] == ["contextmenu", "save", 80, 22, False]


async def test_an_act_on_an_element_that_is_gone(
    computer: PlaywrightComputer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recorded, "APPEAR_TIMEOUT_S", 0.2)
    for action in (ClickElement(), HoverElement(), ScrollTo(y=5), Key(keys="a"), Type(text="x")):
        done = await computer.perform_recorded(action, by_css("#gone", offset=(1, 1)))
        assert done.outcome == Outcome(
            status="failed",
            message=f"The {action.kind} was not done: its element is not there.",
        )
    # where it was is known: as with the actions that name points
    was = by_css("#gone", box=box(10, 10, 20, 20), offset=(10, 5))
    assert (await computer.perform_recorded(ClickElement(), was)).outcome == OK
    assert await computer.page.evaluate("() => clicks") == [["save", 20, 15]]
    assert (await computer.perform_recorded(ClickElement())).outcome.status == "failed"


async def test_the_page_and_elements_are_scrolled_to_an_offset(
    computer: PlaywrightComputer,
) -> None:
    page = computer.page
    await computer.perform_recorded(ScrollTo(y=200))
    assert await page.evaluate("() => scrollY") == 200
    await page.evaluate("""() => {
      save.style.overflow = 'auto'; save.innerHTML = '<div style="height: 500px">x</div>';
    }""")
    await computer.perform_recorded(ScrollTo(y=30), by_css("#save"))
    assert await page.evaluate("() => save.scrollTop") == 30


async def test_keys_of_a_step_with_a_target_are_for_that(computer: PlaywrightComputer) -> None:
    page = computer.page
    city = by_css("[name=city]")
    await computer.perform_recorded(Type(text="Oslo"), city)
    await page.focus("#agree")
    await computer.perform_recorded(Key(keys="Home"), by_css("label"))
    await computer.perform_recorded(Type(text="to "))
    assert await page.input_value("[name=city]") == "to Oslo", "the caret stays where it was"


async def test_a_box_is_checked_by_its_label(computer: PlaywrightComputer) -> None:
    page = computer.page
    await page.evaluate("""() => {
      const label = document.createElement('label');
      label.htmlFor = 'agree'; label.textContent = 'I agree';
      label.style = 'position: absolute; left: 180px; top: 40px'; document.body.append(label);
    }""")
    label = ElementTarget(selectors=((Selector(engine="text", value="agree", exact=False),),))
    assert (await computer.perform_recorded(Fill(value="true"), label)).outcome == OK
    assert await page.is_checked("#agree")
    holds = WaitFor(value="true", timeout_s=1)
    assert (await computer.perform_recorded(holds, label)).outcome == OK


async def test_waiting_for_what_an_element_shows_and_holds(computer: PlaywrightComputer) -> None:
    line = by_css("p")
    shows = WaitFor(text="line\n of  text", timeout_s=2)
    assert (await computer.perform_recorded(shows, line)).outcome == OK
    wrong = WaitFor(text="another line", timeout_s=0.2)
    assert (await computer.perform_recorded(wrong, line)).outcome.status == "failed"
    await computer.page.evaluate("() => setTimeout(() => { colour.value = 'g'; }, 300)")
    holds = WaitFor(value="g", timeout_s=5)
    assert (await computer.perform_recorded(holds, by_css("#colour"))).outcome == OK


async def test_tabs_are_brought_to_the_front_by_their_number(
    computer: PlaywrightComputer, base: str
) -> None:
    await computer.perform_recorded(OpenTab(url=f"{base}/target.html"))
    await computer.perform_recorded(OpenTab(url=f"{base}/target.html"))
    await computer.perform_recorded(SwitchTab(index=1))
    await computer.perform_recorded(CloseTab())
    assert (await computer.perform_recorded(SwitchTab(index=0))).outcome == OK
    assert (computer.tabs, computer.url) == (2, f"{base}/elements.html")
    assert (await computer.perform_recorded(SwitchTab(index=2))).outcome == OK
    assert computer.url == f"{base}/target.html"
    for index in (1, 7):
        done = await computer.perform_recorded(SwitchTab(index=index))
        assert done.outcome.message == f"There is no tab {index}."
