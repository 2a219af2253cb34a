"""A person at a real Chromium: Playwright's mouse and keyboard, whose events are trusted."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from agentserve.browser.person import PersonSession, PersonStep
from agentserve.browser.person import session as module
from agentserve.core.actions import (
    Back,
    Click,
    DoubleClick,
    Drag,
    Key,
    Navigate,
    Scroll,
    Type,
)
from agentserve.core.actions.recorded import (
    CloseTab,
    Fill,
    Forward,
    OpenTab,
    Reload,
    Unsupported,
)


@asynccontextmanager
async def watched(open_page: Any, page: str) -> AsyncIterator[tuple[Any, PersonSession, list[Any]]]:
    steps: list[PersonStep] = []

    async def keep(step: PersonStep) -> None:
        steps.append(step)

    async with open_page(page) as computer:
        await computer.load()
        session = PersonSession(computer, keep)
        await session.begin()
        running = asyncio.ensure_future(session.run())
        await asyncio.wait_for(session.ready.wait(), 10)
        try:
            yield computer, session, steps
        finally:
            running.cancel()
            await asyncio.wait({running})


async def calm(session: PersonSession, act: Awaitable[Any]) -> Any:
    """Act, and wait until that was noticed and the page has been looked at again. A navigation is
    noticed a while after it was done, when the tab's history has been asked for."""
    before = session._pending
    done = await act
    async with asyncio.timeout(20):
        while session._pending is before:  # noqa: ASYNC110 - nothing tells of it
            await asyncio.sleep(0.01)
        await session.ready.wait()
    return done


def actions(steps: list[PersonStep]) -> list[Any]:
    return [step.act.action for step in steps if step.act is not None]


async def ended(session: PersonSession, steps: list[PersonStep]) -> list[PersonStep]:
    await session.finish()
    assert steps[-1].act is None
    return steps[:-1]


async def test_mouse_and_keyboard(open_page: Any) -> None:
    async with watched(open_page, "elements.html") as (computer, session, steps):
        page = computer.page
        await calm(session, page.mouse.click(20, 20))
        await calm(session, page.mouse.dblclick(20, 50))
        await calm(session, page.mouse.click(20, 50, button="right"))
        await page.mouse.move(170, 80)
        await page.mouse.down()
        await page.mouse.move(200, 150)
        await calm(session, page.mouse.up())
        await page.mouse.wheel(0, 100)
        await calm(session, page.mouse.wheel(0, 140))
        await calm(session, page.keyboard.press("Tab"))
        await calm(session, page.keyboard.press("Shift+Tab"))
        told = await ended(session, steps)
        assert actions(told) == [
            Click(x=20, y=20),
            DoubleClick(x=20, y=50),
            Click(x=20, y=50, button="right"),
            Drag(x=170, y=80, to_x=200, to_y=150),
            Scroll(x=200, y=150, dy=240),
            Key(keys="Tab"),
            Key(keys="Shift+Tab"),
        ]
        assert told[0].act.target is not None and told[0].act.target.text == "Save all"
        assert told[0].act.target.offset == (10, 10)
        assert told[3].act.target is not None and told[3].act.target.text == "Drag me"
        assert told[3].act.to_target is not None
        assert all(step.view is not None for step in told)


async def test_a_view_is_what_was_there_before_the_act(open_page: Any) -> None:
    async with watched(open_page, "elements.html") as (computer, session, steps):
        before = await computer.screenshot()
        await computer.page.evaluate("""() => addEventListener('mousedown', () => {
          document.body.style.background = 'navy'; save.remove();
        })""")
        await calm(session, computer.page.mouse.click(20, 20))
        after = await computer.screenshot()
        (step,) = await ended(session, steps)
        assert step.view is not None and step.view.picture == before != after
        assert '- button "★ Save all"' in step.view.aria
        assert step.act.target is not None and step.act.target.text == "Save all"
        assert steps[-1].view is not None and steps[-1].view.picture == after


async def test_typing_is_one_act_a_field(open_page: Any) -> None:
    async with watched(open_page, "elements.html") as (computer, session, steps):
        page = computer.page
        await calm(session, page.mouse.click(80, 142))
        await page.keyboard.type("Os")
        await calm(session, page.keyboard.type("l"))
        await calm(session, page.keyboard.type("o"))  # later, and still the same text
        await calm(session, page.mouse.click(20, 50))
        await calm(session, page.mouse.click(80, 142))
        await page.keyboard.press("Home")
        await calm(session, page.keyboard.type("New "))
        await page.keyboard.press("Enter")
        await asyncio.wait_for(session.ready.wait(), 15)
        told = await ended(session, steps)
        assert actions(told)[1:] == [
            Type(text="Oslo"),
            Click(x=20, y=50),
            Click(x=80, y=142),
            Fill(value="New Oslo"),
            Key(keys="Enter"),
        ]
        assert told[1].view is not None and 'textbox "City": Oslo' not in told[1].view.aria
        assert told[2].view is not None and 'textbox "City": Oslo' in told[2].view.aria


async def test_passwords_stay_out_of_everything(open_page: Any) -> None:
    async with watched(open_page, "elements.html") as (computer, session, steps):
        page = computer.page
        await page.evaluate("""() => {
          const field = document.querySelector('[name=city]');
          field.type = 'password'; field.placeholder = 'Your PIN';
        }""")
        await calm(session, page.mouse.click(80, 142))
        await calm(session, page.keyboard.type("geheim-1"))
        # the page shows it, as with an eye beside the field; what is typed now is as secret
        await page.evaluate("() => { document.querySelector('[name=city]').type = 'text'; }")
        await calm(session, page.keyboard.type("2"))
        told = await ended(session, steps)
        assert actions(told)[1:] == [Fill(value="{{secret:YOUR_PIN}}")]
        assert session.hidden.lasting == {"YOUR_PIN": ("geheim-12",)}
        passing = session.hidden.passing["YOUR_PIN"]
        assert {"g", "ge", "geheim-", "geheim-1"} <= set(passing)
        assert "geheim" not in "".join(str(step.act) for step in steps)


async def test_a_password_stays_one_in_another_field_of_its_name(open_page: Any) -> None:
    """As where an eye beside the field puts one for texts in its place."""
    async with watched(open_page, "elements.html") as (computer, session, steps):
        page = computer.page
        await page.evaluate("document.querySelector('[name=city]').type = 'password'")
        await calm(session, page.mouse.click(80, 142))
        await calm(session, page.keyboard.type("geheim"))
        await page.evaluate("""() => {
          const old = document.querySelector('[name=city]'), field = old.cloneNode();
          field.type = 'text'; field.value = old.value; old.replaceWith(field); field.focus();
          field.setSelectionRange(99, 99);
        }""")
        await calm(session, page.keyboard.type("-2"))
        told = await ended(session, steps)
        assert "-2" not in "".join(str(step.act) for step in told)
        assert [value for each in session.hidden.lasting.values() for value in each][
            -1
        ] == "geheim-2"


async def test_what_was_in_a_password_field_for_a_moment_is_known(open_page: Any) -> None:
    async with watched(open_page, "elements.html") as (computer, session, steps):
        page = computer.page
        await page.evaluate("document.querySelector('[name=city]').type = 'password'")
        await calm(session, page.mouse.click(80, 142))
        await page.keyboard.type("hunter2!x")
        await calm(session, page.keyboard.press("Backspace"))
        await page.evaluate("document.querySelector('[name=city]').value = 'filled in'")
        await calm(session, page.mouse.click(20, 50))
        await ended(session, steps)
        lasting = [value for each in session.hidden.lasting.values() for value in each]
        passing = [value for each in session.hidden.passing.values() for value in each]
        assert set(lasting) == {"hunter2!", "filled in"} and "hunter2!x" in passing


async def test_selects_and_boxes(open_page: Any) -> None:
    async with watched(open_page, "elements.html") as (computer, session, steps):
        page = computer.page
        await page.focus("#colour")
        await calm(session, page.keyboard.press("ArrowDown"))
        await calm(session, page.mouse.click(170, 49))
        told = await ended(session, steps)
        assert actions(told) == [Fill(value="g"), Click(x=170, y=49)]
        assert told[1].act.target is not None and told[1].act.target.tag == "input"


async def test_frames_are_told_in_the_viewports_px(open_page: Any) -> None:
    async with watched(open_page, "elements.html") as (computer, session, steps):
        await calm(session, computer.page.mouse.click(30, 235))
        await calm(session, computer.page.mouse.click(30, 200))
        framed, shadow = await ended(session, steps)
        assert actions([framed, shadow]) == [Click(x=30, y=235), Click(x=30, y=200)]
        assert framed.act.target is not None and framed.act.target.text == "Inside"
        assert len(framed.act.target.selectors[0]) == 2
        assert shadow.act.target is not None and shadow.act.target.text == "Pay"


async def test_a_page_cannot_make_up_acts_nor_see_who_listens(open_page: Any) -> None:
    async with watched(open_page, "elements.html") as (computer, session, steps):
        names = await computer.page.evaluate("""() => {
          save.click();
          save.dispatchEvent(new MouseEvent('mousedown', {bubbles: true}));
          save.dispatchEvent(new MouseEvent('mouseup', {bubbles: true}));
          document.dispatchEvent(new KeyboardEvent('keydown', {key: 'Enter'}));
          JSON.stringify = () => '{"kind": "key", "keys": "F1"}';
          Node.prototype.getRootNode = () => { throw new Error('spoiled'); };
          return Object.getOwnPropertyNames(globalThis).filter(name => /agentserve/i.test(name));
        }""")
        assert names == []
        await calm(session, computer.page.mouse.click(20, 50))
        (step,) = await ended(session, steps)
        assert step.act.action == Click(x=20, y=50)
        assert step.act.target is not None and step.act.target.text == "Drop"


async def test_going_about_in_the_browser(
    open_page: Any, base: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "CONSEQUENCE_S", 0.0)
    async with watched(open_page, "target.html") as (computer, session, steps):
        page = computer.page
        await calm(session, page.goto(f"{base}/elements.html"))
        await calm(session, page.go_back())
        await calm(session, page.go_forward())
        await calm(session, page.reload())
        opened = await calm(session, page.context.new_page())
        await calm(session, opened.goto(f"{base}/late.html"))
        await calm(session, opened.close())
        told = await ended(session, steps)
        assert actions(told) == [
            Navigate(url=f"{base}/elements.html"),
            Back(),
            Forward(),
            Reload(),
            OpenTab(),
            Navigate(url=f"{base}/late.html"),
            CloseTab(),
        ]
        # as a replay's own acts tell it, each of itself
        messages = [step.outcome.message.partition(" and ")[0] for step in told]
        assert messages[3:] == [
            "", "A new tab was opened", "", "The tab was closed; the one before it is in front now."
        ]  # fmt: skip
        assert [step.url.rpartition("/")[2] for step in told[:3]] == [
            "target.html", "elements.html", "target.html",
        ]  # fmt: skip


async def test_what_a_click_brings_about_is_not_an_act(open_page: Any, base: str) -> None:
    async with watched(open_page, "events.html?foreign=x") as (computer, session, steps):
        page = computer.page
        await calm(session, page.mouse.click(10, 10))  # an alert, agreed to as in a replay
        await calm(session, page.mouse.click(10, 70))  # a new tab
        front = computer.page
        assert front is not page
        await calm(session, front.mouse.click(60, 70))
        told = await ended(session, steps)
        assert actions(told) == [Click(x=10, y=10), Click(x=10, y=70), Click(x=60, y=70)]
        assert told[0].outcome.message.startswith("The page said: ")
        assert told[1].outcome.message.startswith("A new tab was opened")


async def test_a_tab_behind_the_front_one_is_told_as_what_no_replay_can_do(
    open_page: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "CONSEQUENCE_S", 0.0)
    async with watched(open_page, "elements.html") as (computer, session, steps):
        first = computer.page
        await calm(session, first.context.new_page())
        await calm(session, first.mouse.click(20, 20))
        told = await ended(session, steps)
        assert actions(told) == [
            OpenTab(),
            Unsupported(what="a click on a tab that was not in front"),
        ]
        assert told[1].outcome.status == "failed"


async def test_closing_the_last_tab_is_the_end(open_page: Any) -> None:
    steps: list[PersonStep] = []

    async def keep(step: PersonStep) -> None:
        steps.append(step)

    async with open_page("elements.html") as computer:
        await computer.load()
        session = PersonSession(computer, keep)
        await session.begin()
        running = asyncio.ensure_future(session.run())
        await asyncio.wait_for(session.ready.wait(), 10)
        await calm(session, computer.page.mouse.click(20, 20))
        await computer.page.close()
        await asyncio.wait_for(running, 10)
        await session.finish()
    assert actions(steps)[0] == Click(x=20, y=20)
