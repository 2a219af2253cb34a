"""MiniWoB++: the same seed gives the same pixels, and the page's own reward comes through."""

from __future__ import annotations

import io
import re

import pytest
from PIL import Image
from playwright.async_api import Browser

from agentserve.browser.miniwob import page_names
from agentserve.browser.scenarios import Stage, list_scenarios, load_scenario, open_scenario
from agentserve.core.actions import Click, Scroll, Type
from agentserve.core.screens import screen_space

LISTED = [name for name in list_scenarios() if name.startswith("miniwob/")]


async def first_screen(browser: Browser, name: str, seed: int) -> tuple[str, bytes]:
    async with open_scenario(browser, load_scenario(name, seed)) as stage:
        space = screen_space(stage.scenario.viewport, stage.scenario.scale, grid=28)
        stage.computer.fit(space)
        return stage.goal, await stage.computer.screenshot()


async def click(stage: Stage, selector: str) -> None:
    box = await stage.computer.page.locator(selector).bounding_box()
    assert box is not None
    await stage.computer.screenshot()
    x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    assert (await stage.computer.perform(Click(x=int(x), y=int(y)))).status == "ok"


@pytest.mark.parametrize("name", LISTED)
async def test_the_same_seed_gives_the_same_screen(browser: Browser, name: str) -> None:
    one, again, other = [await first_screen(browser, name, seed) for seed in (1, 1, 2)]
    assert one == again
    assert one != other
    goal, png = one
    assert len(goal) > 10
    with Image.open(io.BytesIO(png)) as image:
        assert image.size == (224, 280)
        assert image.convert("RGB").getpixel((220, 2)) == (255, 255, 0)  # the task's own bar
        assert image.convert("RGB").getpixel((220, 276)) == (255, 255, 255)  # and nothing beside


async def test_the_wheel_does_not_bring_in_what_lies_beside_the_task(browser: Browser) -> None:
    async with open_scenario(browser, load_scenario("miniwob/click-test", 1)) as stage:
        before = await stage.computer.screenshot()
        await stage.computer.perform(Scroll(x=80, y=100, dx=400, dy=400))
        assert await stage.computer.screenshot() == before


async def test_click_test_is_solved_by_a_click(browser: Browser) -> None:
    async with open_scenario(browser, load_scenario("miniwob/click-test", 3)) as stage:
        assert stage.goal == "Click the button."
        state = await stage.check()
        assert (state.done, state.reward, state.success) == (False, 0.0, False)
        await click(stage, "#subbtn")
        state = await stage.check()
        assert (state.done, state.success) == (True, True)
        assert state.reward >= 0.99


@pytest.mark.parametrize("right", [True, False])
async def test_enter_text_is_judged_by_what_was_entered(browser: Browser, right: bool) -> None:
    async with open_scenario(browser, load_scenario("miniwob/enter-text", 3)) as stage:
        wanted = re.search(r'Enter "(\w+)"', stage.goal)
        assert wanted is not None
        await click(stage, "#tt")
        await stage.computer.screenshot()
        await stage.computer.perform(Type(text=wanted[1] if right else f"{wanted[1]}x"))
        assert (await stage.check()).done is False
        await click(stage, "#subbtn")
        state = await stage.check()
        assert state.done is True
        assert (state.success, state.reward) == ((True, 1.0) if right else (False, -1.0))


async def test_no_clock_ends_or_shows_in_an_episode(browser: Browser) -> None:
    async with open_scenario(browser, load_scenario("miniwob/click-button", 1)) as stage:
        page = stage.computer.page
        assert await page.inner_text("#timer-countdown") == "-"
        first = await stage.computer.screenshot()
        await page.wait_for_timeout(1200)
        assert await stage.computer.screenshot() == first


def test_every_page_of_the_package_can_be_named() -> None:
    names = page_names()
    assert len(names) > 100
    assert {name.removeprefix("miniwob/") for name in LISTED} <= set(names)
    assert load_scenario("miniwob/use-slider").task.start == "miniwob/use-slider.html"
