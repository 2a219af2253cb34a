"""The tasks on the admin pages, solved by hand: each check says no before and yes after, and no
to an attempt that is almost right."""

from __future__ import annotations

import io
from collections.abc import Sequence

import pytest
from PIL import Image
from playwright.async_api import Browser

from agentserve.browser.computer import PlaywrightComputer
from agentserve.browser.scenarios import list_scenarios, load_scenario, open_scenario
from agentserve.core.actions import Action, Click, Key, Type
from agentserve.core.screens import screen_space

# A step is an action, or a CSS selector whose middle is clicked.
Steps = Sequence[Action | str]
EMAIL, PASSWORD = "#exampleInputEmail", "#exampleInputPassword"
LOGIN = "form.user .btn-primary"
SEARCH = "#dataTable_filter input"


async def follow(computer: PlaywrightComputer, steps: Steps) -> None:
    for step in steps:
        if isinstance(step, str):
            box = await computer.page.locator(step).bounding_box()
            assert box is not None, step
            x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
            step = Click(x=int(x), y=int(y))
        await computer.screenshot()
        outcome = await computer.perform(step)
        assert outcome.status == "ok", (step, outcome)


SIGN_IN: Steps = [EMAIL, Type(text="ada@example.com"), PASSWORD, Type(text="analytical"), LOGIN]
FIND_OFFICE: Steps = ["a.nav-link[href='tables.html']", SEARCH, Type(text="Edinburgh")]
REGISTER: Steps = [
    "#exampleFirstName",
    Type(text="Grace"),
    "#exampleLastName",
    Type(text="Hopper"),
    EMAIL,
    Type(text="grace@example.com"),
    PASSWORD,
    Type(text="cobol1959"),
    "#exampleRepeatPassword",
    Type(text="cobol1959"),
    LOGIN,
]


@pytest.mark.parametrize(
    ("name", "steps"),
    [
        ("admin/sign-in", SIGN_IN),
        ("admin/sign-in", [*SIGN_IN[:-1], Key(keys="Enter")]),
        ("admin/find-office", FIND_OFFICE),
        ("admin/register", REGISTER),
    ],
)
async def test_a_task_is_solved_by_clicks_and_typing(
    browser: Browser, name: str, steps: Steps
) -> None:
    scenario = load_scenario(name)
    assert len(steps) + 1 <= scenario.max_turns  # one turn to say done
    async with open_scenario(browser, scenario) as stage:
        for step in steps:
            state = await stage.check()
            assert (state.done, state.reward, state.success) == (False, 0.0, False), step
            await follow(stage.computer, [step])
        state = await stage.check()
        assert (state.done, state.reward, state.success) == (True, 1.0, True)


@pytest.mark.parametrize(
    ("name", "steps"),
    [
        ("admin/sign-in", [LOGIN]),
        ("admin/sign-in", [*SIGN_IN[:3], Type(text="Analytical"), LOGIN]),
        ("admin/find-office", FIND_OFFICE[:1]),
        ("admin/find-office", [*FIND_OFFICE[:2], Type(text="London")]),
        ("admin/register", [LOGIN]),
        ("admin/register", [*REGISTER[:-2], Type(text="cobol"), LOGIN]),
    ],
)
async def test_an_attempt_that_is_not_right_is_not_accepted(
    browser: Browser, name: str, steps: Steps
) -> None:
    async with open_scenario(browser, load_scenario(name)) as stage:
        await follow(stage.computer, steps)
        state = await stage.check()
        assert (state.done, state.success) == (False, False)


async def test_two_visits_show_the_same_screens(browser: Browser) -> None:
    visits = []
    for _ in range(2):
        async with open_scenario(browser, load_scenario("admin/find-office")) as stage:
            shots = [await stage.computer.screenshot()]
            for step in FIND_OFFICE:
                await follow(stage.computer, [step])
                shots.append(await stage.computer.screenshot())
        visits.append(shots)
    assert visits[0] == visits[1]
    assert len(set(visits[0])) == len(visits[0])


async def test_a_screen_needs_no_resizing(browser: Browser) -> None:
    scenario = load_scenario("admin/sign-in")
    for grid in (28, 32):
        assert screen_space(scenario.viewport, scenario.scale, grid).model == scenario.viewport
    async with open_scenario(browser, scenario) as stage:
        with Image.open(io.BytesIO(await stage.computer.screenshot())) as image:
            assert image.size == (1120, 672)


def test_the_three_tasks_are_listed() -> None:
    admin = [name for name in list_scenarios() if name.startswith("admin/")]
    assert admin == ["admin/sign-in", "admin/find-office", "admin/register"]
