"""What the computer shows and does, on real pages in a real Chromium."""

from __future__ import annotations

import asyncio
import io
from typing import Any

import pytest
from PIL import Image

from agentserve.browser import capture
from agentserve.browser import computer as module
from agentserve.browser.capture import resize_png
from agentserve.browser.computer import PlaywrightComputer
from agentserve.browser.launch import launch_browser
from agentserve.core.actions import (
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
    action_to_css,
)
from agentserve.core.errors import BrowserFailed, InvalidRequest
from agentserve.core.screens import Size, screen_space
from agentserve.core.sessions import Outcome

OK = Outcome(status="ok")


def size_of(png: bytes) -> tuple[int, int]:
    with Image.open(io.BytesIO(png)) as image:
        return image.size


async def events(computer: PlaywrightComputer, kind: str) -> list[dict[str, Any]]:
    return [e for e in await computer.page.evaluate("() => events") if e["type"] == kind]


# screenshots


@pytest.mark.parametrize(
    ("viewport", "scale", "device", "model"),
    [
        ((160, 210), 1.4, (224, 294), (224, 280)),
        ((1120, 672), 1.0, (1120, 672), (1120, 672)),
        ((300, 280), 1.0, (300, 280), (308, 280)),
        ((280, 280), 0.5, (140, 140), (140, 140)),
    ],
)
async def test_screenshots_have_the_size_of_the_sessions_screen(
    open_page: Any,
    viewport: tuple[int, int],
    scale: float,
    device: tuple[int, int],
    model: tuple[int, int],
) -> None:
    css = Size(width=viewport[0], height=viewport[1])
    async with open_page("target.html", viewport=css, scale=scale) as computer:
        await computer.load()
        assert size_of(await computer.screenshot()) == device
        computer.fit(screen_space(css, scale, grid=28))
        assert size_of(await computer.screenshot()) == model
        inner = await computer.page.evaluate("() => [innerWidth, innerHeight]")
        assert tuple(inner) == viewport


async def test_a_session_of_another_viewport_does_not_fit(open_page: Any) -> None:
    async with open_page("target.html") as computer:
        with pytest.raises(InvalidRequest, match="640x480"):
            computer.fit(screen_space(Size(width=640, height=480), 1.0, grid=28))


async def test_the_same_page_gives_the_same_bytes_at_any_time(open_page: Any) -> None:
    shots = []
    async with open_page("restless.html", settle_timeout_s=0.3) as computer:
        await computer.load()
        assert await computer.page.evaluate("() => document.activeElement.tagName") == "INPUT"
        for _ in range(4):  # over more than one period of the caret and the animation
            shots.append(await computer.screenshot())
            await asyncio.sleep(0.35)
    async with open_page("restless.html", settle_timeout_s=0.3) as computer:
        await computer.load()
        shots.append(await computer.screenshot())
    assert shots == [shots[0]] * 5
    with Image.open(io.BytesIO(shots[0])) as image:
        assert image.convert("RGB").getpixel((20, 90)) == (255, 0, 0)  # an endless one at its start
        assert image.convert("RGB").getpixel((170, 150)) == (0, 0, 255)  # a finite one at its end


async def test_a_screenshot_does_not_touch_the_document(open_page: Any) -> None:
    async with open_page("restless.html") as computer:
        await computer.load()
        await computer.page.evaluate("""() => {
          window.changes = 0;
          new MutationObserver(records => { window.changes += records.length; }).observe(document,
            {subtree: true, childList: true, attributes: true, characterData: true});
        }""")
        before = await computer.page.content()
        await computer.screenshot()
        assert await computer.page.content() == before
        assert await computer.page.evaluate("() => changes") == 0


def test_a_picture_of_the_right_size_is_passed_on_as_it_is() -> None:
    out = io.BytesIO()
    Image.new("RGB", (30, 20), "navy").save(out, format="PNG")
    png = out.getvalue()
    assert resize_png(png, Size(width=30, height=20)) is png
    smaller = resize_png(png, Size(width=15, height=10))
    with Image.open(io.BytesIO(smaller)) as image:
        assert image.size == (15, 10) and image.getpixel((7, 5)) == (0, 0, 128)


# actions


@pytest.mark.parametrize("point", [(0, 0), (112, 140), (223, 279)])
async def test_a_click_in_model_px_lands_on_its_css_point(
    open_page: Any, point: tuple[int, int]
) -> None:
    css = Size(width=160, height=210)
    space = screen_space(css, 1.4, grid=28)
    expected = {(0, 0): (0, 0), (112, 140): (80, 105), (223, 279): (159, 209)}[point]
    async with open_page("target.html", viewport=css, scale=1.4) as computer:
        await computer.load()
        action = action_to_css(Click(x=point[0], y=point[1]), space)
        assert await computer.perform(action) == OK
        (event,) = await events(computer, "click")
        assert (event["x"], event["y"]) == expected


async def test_mouse_actions(open_page: Any) -> None:
    async with open_page("target.html") as computer:
        await computer.load()
        assert await computer.perform(Click(x=50, y=200, button="right")) == OK
        assert (await events(computer, "contextmenu"))[0]["button"] == 2
        assert await computer.perform(DoubleClick(x=51, y=200)) == OK
        assert (await events(computer, "dblclick"))[0]["x"] == 51
        assert await computer.perform(Hover(x=60, y=210)) == OK
        assert (await events(computer, "mousemove"))[-1]["y"] == 210
        assert await computer.perform(Drag(x=30, y=130, to_x=130, to_y=180)) == OK
        down, up = await events(computer, "mousedown"), await events(computer, "mouseup")
        assert (down[-1]["x"], down[-1]["y"]) == (30, 130)
        assert (up[-1]["x"], up[-1]["y"]) == (130, 180)
        moved = [e["x"] for e in await events(computer, "mousemove")]
        assert len([x for x in moved if 30 < x < 130]) >= 5


async def test_typing_and_keys(open_page: Any) -> None:
    async with open_page("target.html") as computer:
        await computer.load()
        await computer.perform(Click(x=60, y=70))
        assert await computer.perform(Type(text="Grüße 木\n")) == OK
        assert await computer.page.input_value("#field") == "Grüße 木"
        assert "Enter" in [e["key"] for e in await events(computer, "keydown")]
        await computer.perform(Key(keys="Control+a"))
        await computer.perform(Type(text="new"))
        assert await computer.page.input_value("#field") == "new"


async def test_scrolling_ends_before_the_next_screenshot(open_page: Any) -> None:
    async with open_page("target.html") as computer:
        await computer.load()
        assert await computer.perform(Scroll(x=100, y=100, dy=448)) == OK
        assert await computer.page.evaluate("() => scrollY") == 448
        assert await computer.perform(Scroll(x=100, y=100, dy=-100)) == OK
        assert await computer.page.evaluate("() => scrollY") == 348


async def test_navigating_and_waiting(open_page: Any, base: str) -> None:
    async with open_page("target.html") as computer:
        await computer.load()
        assert await computer.perform(Navigate(url="late.html")) == OK
        assert computer.url == f"{base}/late.html"
        assert await computer.page.inner_text("#state") == "ready"
        begun = asyncio.get_running_loop().time()
        assert await computer.perform(Wait(seconds=1)) == OK
        assert asyncio.get_running_loop().time() - begun >= 1.0


async def test_words_to_the_runner_do_nothing_to_the_page(open_page: Any) -> None:
    async with open_page("target.html") as computer:
        await computer.load()
        assert await computer.perform(Done(text="done")) == OK
        assert await computer.perform(CallUser()) == OK
        assert await computer.page.evaluate("() => events") == []


# failures


async def test_a_start_page_that_nobody_serves(browser: Any) -> None:
    options = {"viewport": Size(width=100, height=100)}
    async with module.open_computer(browser, "http://127.0.0.1:9/", **options) as computer:
        with pytest.raises(BrowserFailed, match="cannot open"):
            await computer.load()
    with pytest.raises(InvalidRequest, match="http"):
        async with module.open_computer(browser, "file:///etc/passwd", **options):
            pass


async def test_a_page_that_hangs_fails_the_action_and_then_the_run(
    open_page: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "ACTION_TIMEOUT_S", 1.0)
    monkeypatch.setattr(capture, "SCREENSHOT_TIMEOUT_S", 1.0)
    async with open_page("events.html", settle_timeout_s=0.5) as computer:
        await computer.load()
        outcome = await computer.perform(Click(x=10, y=210))
        assert outcome == Outcome(status="failed", message="The page did not react within 1 s.")
        with pytest.raises(BrowserFailed, match="cannot be captured"):
            await computer.screenshot()


async def test_a_crashed_page_ends_the_run(open_page: Any) -> None:
    async with open_page("target.html") as computer:
        await computer.load()
        crashed = asyncio.Event()
        computer.page.once("crash", lambda _: crashed.set())
        crashing = asyncio.ensure_future(computer.page.goto("chrome://crash"))
        await asyncio.wait_for(crashed.wait(), 10)
        with pytest.raises(BrowserFailed, match="crashed"):
            await computer.screenshot()
        with pytest.raises(BrowserFailed, match="crashed"):
            await computer.perform(Click(x=1, y=1))
    await asyncio.gather(crashing, return_exceptions=True)


async def test_a_lost_browser_ends_the_run(base: str) -> None:
    async with (
        launch_browser() as browser,
        module.open_computer(
            browser, f"{base}/target.html", viewport=Size(width=100, height=100)
        ) as computer,
    ):
        await computer.load()
        await browser.close()
        with pytest.raises(BrowserFailed):
            await computer.perform(Click(x=1, y=1))
        with pytest.raises(BrowserFailed):
            await computer.screenshot()
